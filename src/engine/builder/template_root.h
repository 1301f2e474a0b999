/* Root file systems of templates, each made by a process of its own. See template_root.c. */
#pragma once

/* main() of that process */
int root_main(void);
