/* Lists a workspace for the supervisor: the builder can enter every directory of it. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "engine/box/box.h"
#include "engine/shared/beneath.h"
#include "engine/shared/walk.h"

#include "base/banned.h"

int entry_walk(const struct box_entry *box, const char *dir, unsigned flags, int *ret_fd,
               uint32_t *ret_count, bool *ret_incomplete, struct gb_err *err)
{
    autoclose int out = memfd_create("glovebox-scan", MFD_CLOEXEC);
    struct walk walk = { 0 };
    int fd, r;

    if (out < 0)
        return gb_fail(err, errno, "create a memory file");
    fd = beneath_open(box->workspace, *dir ? dir : ".", O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return gb_fail(err, -fd, "open a directory of the workspace");
    r = walk_tree(fd, dir, flags, &walk);
    if (r == 0)
        r = io_write_all(out, walk.data, walk.len);
    if (r == 0) {
        *ret_fd = TAKE_FD(out);
        *ret_count = walk.count;
        *ret_incomplete = walk.incomplete;
    }
    walk_release(&walk);
    return r < 0 ? gb_fail(err, -r, "scan the workspace") : 0;
}

int entry_scan(const struct box_entry *box, int *ret_fd, uint32_t *ret_count, bool *ret_incomplete,
               struct gb_err *err)
{
    return entry_walk(box, "", WALK_FILES, ret_fd, ret_count, ret_incomplete, err);
}
