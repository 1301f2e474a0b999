/* The functions of output_ext.c, for the method table of the extension (template_ext.c). Include
 * Python.h before this file. */
#pragma once

/* Makes the types once, for all clones. Returns -1 with an exception. */
int output_init(void);

/* Writes what is held back. Errors are left to the next flush() of the stream. */
void output_drain(void);

PyObject *output_open(PyObject *module, PyObject *args);
PyObject *output_before(PyObject *module, PyObject *call);

extern const char output_open_doc[], output_before_doc[];
