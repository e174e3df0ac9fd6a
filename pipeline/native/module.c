/* The module: its types, and what it borrows from msgspec. */

#include "native.h"

static PyObject *
made(PyObject *json, const char *type, PyObject *of, const char *method)
{
    PyObject *one = PyObject_CallMethod(json, type, of == NULL ? NULL : "O", of);
    PyObject *bound = one == NULL ? NULL : PyObject_GetAttrString(one, method);
    Py_XDECREF(one);
    return bound;
}

/* Take from msgspec what values are made, encoded and decoded by: once, when the module is loaded. */
static int
borrow(void)
{
    PyObject *msgspec = PyImport_ImportModule("msgspec");
    PyObject *json = msgspec == NULL ? NULL : PyObject_GetAttrString(msgspec, "json");
    PyObject *raw = json == NULL ? NULL : PyObject_GetAttrString(msgspec, "Raw");
    PyObject *encode = raw == NULL ? NULL : made(json, "Encoder", NULL, "encode");
    PyObject *decode_text = encode == NULL ? NULL : made(json, "Decoder", (PyObject *)&PyUnicode_Type, "decode");
    int done = decode_text == NULL || names_init(encode, decode_text) < 0 ||
                       members_init(raw, encode, decode_text) < 0 || accumulators_init() < 0 || observer_init() < 0
                   ? -1
                   : 0;
    Py_XDECREF(msgspec);
    Py_XDECREF(json);
    Py_XDECREF(raw);
    Py_XDECREF(encode);
    Py_XDECREF(decode_text);
    return done;
}

static PyMethodDef functions[] = {
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
                                   &Writer_Type, &IdAccumulator_Type, &PairAccumulator_Type, &PropertyAccumulator_Type, &Observer_Type, &Tally_Type};
    PyObject *module = borrow() < 0 ? NULL : PyModule_Create(&definition);
    for (size_t i = 0; module != NULL && i < sizeof(types) / sizeof(types[0]); i++)
        if (PyModule_AddType(module, types[i]) < 0)
            Py_CLEAR(module);
    return module;
}
