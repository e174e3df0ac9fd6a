/* Writes an event from Members, as `pipeline.encoder.event` writes one from a dict. */

#include "native.h"

typedef struct {
    PyObject_HEAD
    PyObject *reserved; /* frozenset of names: Python writes events that have one of these */
    PyObject *tail, *tail_beside_ip;
    Name *ip;
    Answers answers;
    vectorcallfunc call;
} Writer;

enum { NO = 1, YES = 2 };

/* Whether a name is reserved; -1 with an exception. */
static int
is_reserved(Writer *self, const Name *name)
{
    if (name->number < self->answers.room && self->answers.answers[name->number] == NO)
        return 0; /* by far the most common case */
    uint32_t *answer = answer_of(&self->answers, name);
    if (answer == NULL)
        return -1;
    if (*answer == 0) {
        int contained = PySet_Contains(self->reserved, name->text);
        if (contained < 0)
            return -1;
        *answer = contained ? YES : NO;
    }
    return *answer == YES;
}

/* Whether the service treats an address as missing: `pipeline.encoder.event.is_falsy`. */
static int
is_falsy(const Member *member)
{
    static const char *const words[] = {"null", "\"\"", "0", "false"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (member->length == (Py_ssize_t)strlen(words[i]) && memcmp(member->at, words[i], (size_t)member->length) == 0)
            return 1;
    return 0;
}

/* Whether text stays the same inside a JSON string. */
static int
is_plain(const char *at, Py_ssize_t length)
{
    for (const char *end = at + length; at < end; at++)
        if (*at == '"' || *at == '\\' || (unsigned char)*at < 0x20)
            return 0;
    return 1;
}

/* Whether a member is text that is written as a JSON string here. */
static inline int
is_text(const Member *member)
{
    return member->cell != NULL || (member->value != NULL && PyUnicode_CheckExact(member->value));
}

/* The UTF-8 of a member's text, valid while the member lives; NULL without an exception for half a surrogate pair. */
static const char *
utf8_of(const Member *member, Py_ssize_t *length)
{
    PyObject *text = member->value;
    if (member->cell != NULL) {
        *length = member->length;
        return member->cell;
    }
    if (PyUnicode_IS_COMPACT_ASCII(text)) {
        *length = PyUnicode_GET_LENGTH(text);
        return (const char *)PyUnicode_1BYTE_DATA(text);
    }
    const char *utf8 = PyUnicode_AsUTF8AndSize(text, length);
    if (utf8 == NULL)
        PyErr_Clear();
    return utf8;
}

/* Most names and values are short, and for these a call of memcpy costs more than the copy. */
static inline char *
append(char *to, const char *from, Py_ssize_t length)
{
    if (length >= 8 && length <= 16) {
        uint64_t first, last;
        memcpy(&first, from, 8);
        memcpy(&last, from + length - 8, 8);
        memcpy(to, &first, 8);
        memcpy(to + length - 8, &last, 8);
        return to + length;
    }
    memcpy(to, from, (size_t)length);
    return to + length;
}

#define APPEND_BYTES(to, bytes) append(to, PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes))

/* The bytes of all properties with their names, assuming that no text needs escaping; 0 if Python has to write the
 * event, -1 with an exception. Values that are not yet JSON are encoded, which may run Python; then all is measured
 * once more. */
static Py_ssize_t
measure(Writer *self, Members *properties, PyObject **tail)
{
    for (int encoded = 0;; encoded = 1) {
        Py_ssize_t length = 0;
        int again = 0;
        *tail = self->tail;
        for (Py_ssize_t i = 0; i < properties->used; i++) {
            const Member *member = &properties->members[i];
            const Name *name = member->name;
            if (name == NULL)
                continue;
            int reserved = is_reserved(self, name);
            if (reserved)
                return reserved < 0 ? -1 : 0;
            if (member->at == NULL && is_text(member)) {
                Py_ssize_t own;
                const char *utf8 = utf8_of(member, &own);
                if (utf8 == NULL || (name == self->ip && own == 0))
                    return 0;
                if (name == self->ip)
                    *tail = self->tail_beside_ip;
                length += PyBytes_GET_SIZE(name->written) + own + 2;
                continue;
            }
            if (member->at == NULL) {
                if (name == self->ip)
                    return 0;
                if (encoded || member->value == NULL) {
                    PyErr_SetString(PyExc_RuntimeError, "the members changed while they were written");
                    return -1;
                }
                if (members_encode(properties, i) < 0)
                    return -1;
                again = 1;
                member = &properties->members[i];
            }
            if (name == self->ip) {
                if (is_falsy(member))
                    return 0;
                *tail = self->tail_beside_ip;
            }
            length += PyBytes_GET_SIZE(name->written) + member->length;
        }
        if (!again)
            return length;
    }
}

/* Set the text's length. If it has to grow, its room is doubled, so that events are seldom moved. */
static int
make_room(PyObject *text, Py_ssize_t length)
{
    if (length >= ((PyByteArrayObject *)text)->ob_alloc && PyByteArray_Resize(text, 2 * length) < 0)
        return -1;
    return PyByteArray_Resize(text, length);
}

/* Write all properties, starting at `to`; returns the byte after them, NULL with an exception. If a text takes more
 * than was measured, `text` grows by that much: all of it after `to` is still to be written. */
static char *
write_properties(PyObject *text, char *to, const Members *properties)
{
    for (const Member *member = properties->members, *end = member + properties->used; member < end; member++) {
        if (member->name == NULL)
            continue;
        to = APPEND_BYTES(to, member->name->written);
        if (member->at != NULL) {
            to = append(to, member->at, member->length);
            continue;
        }
        Py_ssize_t own;
        const char *utf8 = utf8_of(member, &own);
        char *after = write_plain(to, utf8, own);
        if (after == NULL) {
            Py_ssize_t at = to - PyByteArray_AS_STRING(text), more = quoted_length(utf8, own) - own - 2;
            if (make_room(text, PyByteArray_GET_SIZE(text) + more) < 0)
                return NULL;
            after = write_quoted(PyByteArray_AS_STRING(text) + at, utf8, own);
        }
        to = after;
    }
    return to;
}

/* 1; 0, with nothing appended, if Python has to write the event; -1 with an exception. Runs Python. */
static int
append_event(Writer *self, PyObject *const *arguments, Py_ssize_t most)
{
    if (!PyByteArray_CheckExact(arguments[0]) || !PyBytes_CheckExact(arguments[1]) || !PyUnicode_Check(arguments[2]) ||
        !Members_Check(arguments[3]) || !PyBytes_CheckExact(arguments[4])) {
        PyErr_SetString(PyExc_TypeError, "text, head, distinct_id, properties, ending and most were expected");
        return -1;
    }
    PyObject *text = arguments[0], *head = arguments[1], *ending = arguments[4], *tail = self->tail;
    Members *properties = (Members *)arguments[3];
    Py_ssize_t id_length;
    const char *id = PyUnicode_AsUTF8AndSize(arguments[2], &id_length);
    if (id == NULL) {
        PyErr_Clear();
        return 0;
    }
    if (!properties->live || !is_plain(id, id_length))
        return 0;

    Py_ssize_t length = measure(self, properties, &tail);
    if (length <= 0)
        return length < 0 ? -1 : 0;
    length += PyBytes_GET_SIZE(head) + id_length + 2 + PyBytes_GET_SIZE(tail);
    if (length >= most)
        return 0;

    Py_ssize_t before = PyByteArray_GET_SIZE(text), after = PyBytes_GET_SIZE(ending);
    if (make_room(text, before + length + after) < 0)
        return -1;
    char *to = APPEND_BYTES(PyByteArray_AS_STRING(text) + before, head);
    *to++ = '"';
    to = append(to, id, id_length);
    *to++ = '"';
    to = write_properties(text, to, properties);
    int too_long = PyByteArray_GET_SIZE(text) - before - after >= most;
    if (to == NULL || too_long) /* `most` bytes, after escaping */
        return PyByteArray_Resize(text, before) < 0 || to == NULL ? -1 : 0;
    to = APPEND_BYTES(to, tail);
    APPEND_BYTES(to, ending);
    return 1;
}

/* writer(text, head, distinct_id, properties, ending, most) -> bool */
static PyObject *
write_event(PyObject *callable, PyObject *const *arguments, size_t flags, PyObject *named)
{
    if (PyVectorcall_NARGS(flags) != 6 || named != NULL)
        return PyErr_Format(PyExc_TypeError, "text, head, distinct_id, properties, ending and most were expected");
    Py_ssize_t most = PyLong_AsSsize_t(arguments[5]);
    int done = most == -1 && PyErr_Occurred() ? -1 : append_event((Writer *)callable, arguments, most);
    return done < 0 ? NULL : PyBool_FromLong(done);
}

static PyObject *
construct(PyTypeObject *type, PyObject *arguments, PyObject *named)
{
    PyObject *reserved, *tail, *tail_beside_ip;
    static char *keywords[] = {"reserved", "tail", "tail_beside_ip", NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "O!SS", keywords, &PyFrozenSet_Type, &reserved, &tail,
                                     &tail_beside_ip))
        return NULL;
    PyObject *ip = PyUnicode_FromString("$ip");
    Writer *self = ip == NULL ? NULL : (Writer *)type->tp_alloc(type, 0);
    if (self == NULL) {
        Py_XDECREF(ip);
        return NULL;
    }
    self->call = write_event;
    self->tail = Py_NewRef(tail);
    self->tail_beside_ip = Py_NewRef(tail_beside_ip);
    self->ip = name_of(ip);
    Py_DECREF(ip);
    self->reserved = self->ip == NULL ? NULL : names_only(reserved);
    if (self->reserved == NULL)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void
dealloc(Writer *self)
{
    Py_CLEAR(self->reserved);
    Py_CLEAR(self->tail);
    Py_CLEAR(self->tail_beside_ip);
    PyMem_Free(self->answers.answers);
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
