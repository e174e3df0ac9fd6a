/* The module: its types, and what it uses from msgspec. */

#include "native.h"

/* `json.TYPE(ARGUMENT).METHOD`; `argument` may be NULL. */
static PyObject *
method_of(PyObject *json, const char *type, PyObject *argument, const char *method)
{
    PyObject *object = PyObject_CallMethod(json, type, argument == NULL ? NULL : "O", argument);
    PyObject *bound = object == NULL ? NULL : PyObject_GetAttrString(object, method);
    Py_XDECREF(object);
    return bound;
}

/* Give the files msgspec's Raw, encoder and string decoder, once, when the module is loaded. */
static int
init_files(void)
{
    PyObject *msgspec = PyImport_ImportModule("msgspec");
    PyObject *json = msgspec == NULL ? NULL : PyObject_GetAttrString(msgspec, "json");
    PyObject *raw = json == NULL ? NULL : PyObject_GetAttrString(msgspec, "Raw");
    PyObject *encode = raw == NULL ? NULL : method_of(json, "Encoder", NULL, "encode");
    PyObject *decode_text = encode == NULL ? NULL : method_of(json, "Decoder", (PyObject *)&PyUnicode_Type, "decode");
    int done = decode_text == NULL || names_init(encode, decode_text) < 0 ||
                       members_init(raw, encode, decode_text) < 0 || observer_init() < 0
                   ? -1
                   : 0;
    Py_XDECREF(msgspec);
    Py_XDECREF(json);
    Py_XDECREF(raw);
    Py_XDECREF(encode);
    Py_XDECREF(decode_text);
    return done;
}

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_native",
    .m_size = -1,
};

PyMODINIT_FUNC
PyInit__native(void)
{
    PyTypeObject *const types[] = {
        &Members_Type, &Lines_Type, &Opener_Type, &Header_Type, &Cells_Type, &Delimited_Type,
        &Renames_Type, &Spread_Type, &Blanks_Type, &Reader_Type, &Writer_Type, &Observer_Type, &Appender_Type,
    };
    PyObject *module = init_files() < 0 ? NULL : PyModule_Create(&definition);
    for (size_t i = 0; module != NULL && i < sizeof(types) / sizeof(types[0]); i++)
        if (PyModule_AddType(module, types[i]) < 0)
            Py_CLEAR(module);
    return module;
}
