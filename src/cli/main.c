#include "cli/cli.h"

#include <stddef.h>

#include "base/banned.h"

int main(int argc, char **argv)
{
    return cli_main(argc, argv, NULL);
}
