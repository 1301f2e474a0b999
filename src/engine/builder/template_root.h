/* Root file systems of templates, each created by a separate process. See template_root.c. */
#pragma once

/* main() of that process */
int root_main(void);
