/*
 * Functions that have no safe use here. Include this last, after the system headers.
 */
#pragma once

#undef strcpy
#undef strcat
#undef sprintf
#undef vsprintf
#undef strtok
#undef atoi
#undef atol
#undef gets

#pragma GCC poison strcpy strcat sprintf vsprintf strtok atoi atol gets
