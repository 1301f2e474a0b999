/* The blob and its table come from tools/embed_files.py; .incbin, because C17 has no #embed. */
#include "server/page/files.h"

#include <string.h>

#include "server/page_files.h"

#include "base/banned.h"

__asm__(".section .rodata\n"
        ".global gb_page_start\n"
        ".balign 16\n"
        "gb_page_start:\n"
        ".incbin \"" PAGE_BLOB "\"\n"
        ".byte 0\n"
        ".previous\n");
extern const unsigned char gb_page_start[] __attribute__((visibility("hidden")));

const struct page_file *page_file_find(const char *name)
{
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strcmp(files[i].name, name) == 0)
            return &files[i];
    return NULL;
}

const void *page_file_data(const struct page_file *file)
{
    return gb_page_start + file->offset;
}
