/* Writes an event: what `pipeline.encoder.event` writes for properties in a dict, from Members. */

#include "native.h"

typedef struct {
    PyObject_HEAD
    PyObject *reserved; /* frozenset of the names that the slow way has to see */
    PyObject *tail, *tail_beside_ip;
    Name *ip;
    Answers answers;
    vectorcallfunc call;
} Writer;

enum { NO = 1, YES = 2 };

/* Whether the slow way has to see this name; -1 with an exception. */
static int
is_reserved(Writer *self, const Name *name)
{
    uint32_t *answer = answer_of(&self->answers, name);
    if (answer == NULL)
        return -1;
    if (*answer == 0) {
        int held = PySet_Contains(self->reserved, name->text);
        if (held < 0)
            return -1;
        *answer = held ? YES : NO;
    }
    return *answer == YES;
}

/* What the service takes for "no address": `pipeline.encoder.event.is_falsy`. */
static int
is_falsy(const Member *one)
{
    static const char *const words[] = {"null", "\"\"", "0", "false"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (one->length == (Py_ssize_t)strlen(words[i]) && memcmp(one->at, words[i], (size_t)one->length) == 0)
            return 1;
    return 0;
}

/* Whether a text stands in JSON just as it is. */
static int
is_plain(const char *at, Py_ssize_t length)
{
    for (const char *end = at + length; at < end; at++)
        if (*at == '"' || *at == '\\' || (unsigned char)*at < 0x20)
            return 0;
    return 1;
}

static inline char *
append(char *to, const char *from, Py_ssize_t length)
{
    memcpy(to, from, (size_t)length);
    return to + length;
}

#define APPEND_BYTES(to, bytes) append(to, PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes))

/* How many bytes the properties take, each behind its name; 0 where the slow way has to see them, -1 with an exception.
 * What is no JSON yet becomes so, which may run Python: then all are measured once more, and nothing of the kind is
 * left. */
static Py_ssize_t
measure(Writer *self, Members *properties, PyObject **tail)
{
    for (int encoded = 0;; encoded = 1) {
        Py_ssize_t length = 0;
        int again = 0;
        *tail = self->tail;
        for (Py_ssize_t i = 0; i < properties->used; i++) {
            const Member *one = &properties->members[i];
            const Name *name = one->name;
            if (name == NULL)
                continue;
            int reserved = is_reserved(self, name);
            if (reserved)
                return reserved < 0 ? -1 : 0;
            if (one->at == NULL) {
                if (encoded || one->value == NULL) {
                    PyErr_SetString(PyExc_RuntimeError, "the members changed while they were written");
                    return -1;
                }
                if (members_encode(properties, i) < 0)
                    return -1;
                again = 1;
                one = &properties->members[i];
            }
            if (name == self->ip) {
                if (is_falsy(one))
                    return 0;
                *tail = self->tail_beside_ip;
            }
            length += PyBytes_GET_SIZE(name->written) + one->length;
        }
        if (!again)
            return length;
    }
}

/* writer(text, head, distinct_id, properties, ending, most) -> bool
 *
 * Adds an event to the bytearray `text`, unless it takes the slow way: one of the reserved names, an empty $ip, an id
 * that has to be escaped, no properties, or more than `most` bytes. */
static PyObject *
write_event(PyObject *callable, PyObject *const *given, size_t flags, PyObject *named)
{
    Writer *self = (Writer *)callable;
    if (PyVectorcall_NARGS(flags) != 6 || named != NULL || !PyByteArray_CheckExact(given[0]) ||
        !PyBytes_CheckExact(given[1]) || !PyUnicode_Check(given[2]) || !Members_Check(given[3]) ||
        !PyBytes_CheckExact(given[4])) {
        PyErr_SetString(PyExc_TypeError, "text, head, distinct_id, properties, ending and most were expected");
        return NULL;
    }
    PyObject *text = given[0], *head = given[1], *ending = given[4], *tail = self->tail;
    Members *properties = (Members *)given[3];
    Py_ssize_t most = PyLong_AsSsize_t(given[5]);
    if (most == -1 && PyErr_Occurred())
        return NULL;
    Py_ssize_t id_length;
    const char *id = PyUnicode_AsUTF8AndSize(given[2], &id_length);
    if (id == NULL) {
        PyErr_Clear();
        Py_RETURN_FALSE;
    }
    if (!properties->live || !is_plain(id, id_length))
        Py_RETURN_FALSE;

    Py_ssize_t length = measure(self, properties, &tail);
    if (length <= 0) {
        if (length < 0)
            return NULL;
        Py_RETURN_FALSE;
    }
    length += PyBytes_GET_SIZE(head) + id_length + 2;
    length += PyBytes_GET_SIZE(tail);
    if (length >= most)
        Py_RETURN_FALSE;

    Py_ssize_t before = PyByteArray_GET_SIZE(text);
    if (PyByteArray_Resize(text, before + length + PyBytes_GET_SIZE(ending)) < 0)
        return NULL;
    char *to = APPEND_BYTES(PyByteArray_AS_STRING(text) + before, head);
    *to++ = '"';
    to = append(to, id, id_length);
    *to++ = '"';
    for (Member *one = properties->members, *end = one + properties->used; one < end; one++) {
        if (one->name == NULL)
            continue;
        to = APPEND_BYTES(to, one->name->written);
        to = append(to, one->at, one->length);
    }
    to = APPEND_BYTES(to, tail);
    APPEND_BYTES(to, ending);
    Py_RETURN_TRUE;
}

static PyObject *
construct(PyTypeObject *type, PyObject *given, PyObject *named)
{
    PyObject *reserved, *tail, *tail_beside_ip;
    static char *words[] = {"reserved", "tail", "tail_beside_ip", NULL};
    if (!PyArg_ParseTupleAndKeywords(given, named, "O!SS", words, &PyFrozenSet_Type, &reserved, &tail, &tail_beside_ip))
        return NULL;
    PyObject *ip = PyUnicode_FromString("$ip");
    Writer *self = ip == NULL ? NULL : (Writer *)type->tp_alloc(type, 0);
    if (self == NULL) {
        Py_XDECREF(ip);
        return NULL;
    }
    self->call = write_event;
    self->reserved = names_only(reserved);
    self->tail = Py_NewRef(tail);
    self->tail_beside_ip = Py_NewRef(tail_beside_ip);
    self->ip = name_of(ip);
    Py_DECREF(ip);
    if (self->ip == NULL || self->reserved == NULL)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void
dealloc(Writer *self)
{
    Py_CLEAR(self->reserved);
    Py_CLEAR(self->tail);
    Py_CLEAR(self->tail_beside_ip);
    PyMem_Free(self->answers.known);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

PyTypeObject Writer_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pipeline.native._native.Writer",
    .tp_basicsize = sizeof(Writer),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Writer, call),
    .tp_call = PyVectorcall_Call,
    .tp_new = construct,
    .tp_dealloc = (destructor)dealloc,
};
