/* The module: its types, and what it borrows from msgspec. */

#include "native.h"

/* borrow(Raw, encode, decode_text): once, before anything else. */
static PyObject *
borrow(PyObject *Py_UNUSED(module), PyObject *given)
{
    PyObject *raw, *encode, *decode_text;
    if (!PyArg_ParseTuple(given, "OOO", &raw, &encode, &decode_text))
        return NULL;
    if (names_init(encode, decode_text) < 0 || members_init(raw, encode, decode_text) < 0 || folds_init() < 0 ||
        observer_init() < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"borrow", borrow, METH_VARARGS, NULL},
    {"fill", (PyCFunction)(void (*)(void))fill, METH_FASTCALL, NULL},
    {"uuids5", (PyCFunction)(void (*)(void))uuids5, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_native",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC
PyInit__native(void)
{
    PyTypeObject *const types[] = {&Members_Type, &Lines_Type, &Renames_Type, &Columns_Type,
                                   &Writer_Type, &Ids_Type, &Pairs_Type, &Properties_Type, &Observer_Type};
    PyObject *module = PyModule_Create(&definition);
    for (size_t i = 0; module != NULL && i < sizeof(types) / sizeof(types[0]); i++)
        if (PyModule_AddType(module, types[i]) < 0)
            Py_CLEAR(module);
    return module;
}
