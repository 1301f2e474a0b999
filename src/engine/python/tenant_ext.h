/* The functions of tenant_ext.c, for the method table of the extension (template_ext.c). Include
 * Python.h before this file. */
#pragma once

/* Initializes shared objects once, for all clones. Returns -1 with an exception. */
int ext_tenant_init(void);

PyObject *ext_receive(PyObject *module, PyObject *fd);
PyObject *ext_send(PyObject *module, PyObject *args);
PyObject *ext_settle(PyObject *module, PyObject *untouched);
PyObject *ext_identify(PyObject *module, PyObject *fds);
PyObject *ext_is_same(PyObject *module, PyObject *identity);
PyObject *ext_block(PyObject *module, PyObject *number);
PyObject *ext_unblock(PyObject *module, PyObject *number);
PyObject *ext_flush(PyObject *module, PyObject *unused);

extern const char ext_receive_doc[], ext_send_doc[], ext_settle_doc[], ext_identify_doc[],
    ext_is_same_doc[], ext_block_doc[], ext_unblock_doc[], ext_flush_doc[];
