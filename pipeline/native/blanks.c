/* Removes the members that a mapping treats as missing, as `pipeline.mapper.program.blanks` does. */

#include "native.h"

typedef struct {
    PyObject_HEAD
    PyObject *json, *cells;     /* frozensets: strings that count as missing: of JSON values, of others */
    uint64_t lengths[2];        /* of these strings, as bits: bytes of UTF-8 for JSON, else characters */
    PyObject *names;            /* frozenset: only members with these names; NULL for all */
    Name *kept;                 /* the name of a member that is never removed; or NULL */
    Answers answers;
    vectorcallfunc call;
} Blanks;

enum { NO = 1, YES = 2 };

static inline int
may_be(uint64_t lengths, Py_ssize_t length)
{
    return lengths >> (length < 63 ? length : 63) & 1;
}

/* Whether a member with this name may be missing; -1 with an exception. */
static int
is_asked(Blanks *self, const Name *name)
{
    if (name == self->kept)
        return 0;
    if (self->names == NULL)
        return 1;
    uint32_t *answer = answer_of(&self->answers, name);
    if (answer == NULL)
        return -1;
    if (*answer == 0) {
        int contained = PySet_Contains(self->names, name->text);
        if (contained < 0)
            return -1;
        *answer = contained ? YES : NO;
    }
    return *answer == YES;
}

/* Whether a member is missing; -1 with an exception. */
static int
is_blank(Blanks *self, const Member *member)
{
    PyObject *texts = member->at != NULL ? self->json : self->cells;
    if (member->at != NULL) {
        int quoted = *member->at == '"';
        Py_ssize_t length = member->length - 2 * quoted;
        if (length < 0)
            return 0;
        if (!may_be(self->lengths[0], length) &&
            !(quoted && memchr(member->at, '\\', (size_t)member->length) != NULL))
            return 0;
    }
    else if (member->cell != NULL) {
        Py_ssize_t characters = 0;
        for (Py_ssize_t i = 0; i < member->length; i++)
            characters += (member->cell[i] & 0xC0) != 0x80;
        if (!may_be(self->lengths[1], characters))
            return 0;
    }
    else if (member->value == NULL || Members_Check(member->value) || PyDict_Check(member->value))
        return 0;
    else if (PyUnicode_CheckExact(member->value)) {
        if (!may_be(self->lengths[1], PyUnicode_GET_LENGTH(member->value)))
            return 0;
        return PySet_Contains(texts, member->value);
    }
    PyObject *text = member_text(member);
    if (text == NULL) { /* not text, so none of these */
        if (PyErr_ExceptionMatches(PyExc_MemoryError))
            return -1;
        PyErr_Clear();
        return 0;
    }
    int blank = text == Py_None ? 0 : PySet_Contains(texts, text);
    Py_DECREF(text);
    return blank;
}

int
blanks_has(PyObject *blanks, const Member *member)
{
    return is_blank((Blanks *)blanks, member);
}

/* blanks(members) */
static PyObject *
remove_blanks(PyObject *callable, PyObject *const *arguments, size_t flags, PyObject *named)
{
    Blanks *self = (Blanks *)callable;
    if (PyVectorcall_NARGS(flags) != 1 || named != NULL || !Members_Check(arguments[0]))
        return PyErr_Format(PyExc_TypeError, "Members were expected");
    Members *members = (Members *)arguments[0];
    for (Py_ssize_t i = 0; i < members->used; i++) {
        const Name *name = members->members[i].name;
        int asked = name == NULL ? 0 : is_asked(self, name);
        int blank = asked > 0 ? is_blank(self, &members->members[i]) : asked;
        if (blank < 0)
            return NULL;
        /* Reading text may run Python, so the member is looked up again. */
        if (blank && i < members->used && members->members[i].name == name)
            members_remove(members, &members->members[i]);
    }
    Py_RETURN_NONE;
}

/* The lengths of some strings, as bits; 0 with an exception, or if there are none. */
static uint64_t
lengths_of(PyObject *texts, int bytes)
{
    uint64_t lengths = 0;
    PyObject *iterator = PyObject_GetIter(texts), *text;
    while (iterator != NULL && (text = PyIter_Next(iterator)) != NULL) {
        Py_ssize_t length = PyUnicode_GET_LENGTH(text);
        if (bytes && PyUnicode_AsUTF8AndSize(text, &length) == NULL) {
            PyErr_Clear(); /* half of a surrogate pair, which the JSON of a row never has */
            length = 0;
        }
        lengths |= (uint64_t)1 << (length < 63 ? length : 63);
        Py_DECREF(text);
    }
    Py_XDECREF(iterator);
    return PyErr_Occurred() ? 0 : lengths;
}

static PyObject *
construct(PyTypeObject *type, PyObject *arguments, PyObject *named)
{
    PyObject *json, *cells, *names, *kept = Py_None;
    static char *keywords[] = {"json", "cells", "names", "kept", NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "O!O!O!|O", keywords, &PyFrozenSet_Type, &json,
                                     &PyFrozenSet_Type, &cells, &PyFrozenSet_Type, &names, &kept))
        return NULL;
    Blanks *self = (Blanks *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->call = remove_blanks;
    self->json = names_only(json);
    self->cells = self->json == NULL ? NULL : names_only(cells);
    if (self->cells != NULL && PySet_GET_SIZE(names))
        self->names = names_only(names);
    if (!PyErr_Occurred()) {
        self->lengths[0] = lengths_of(self->json, 1);
        self->lengths[1] = PyErr_Occurred() ? 0 : lengths_of(self->cells, 0);
    }
    if (!PyErr_Occurred() && kept != Py_None)
        self->kept = name_of(kept);
    if (PyErr_Occurred())
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void
dealloc(Blanks *self)
{
    Py_CLEAR(self->json);
    Py_CLEAR(self->cells);
    Py_CLEAR(self->names);
    PyMem_Free(self->answers.answers);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

PyTypeObject Blanks_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pipeline.native._native.Blanks",
    .tp_basicsize = sizeof(Blanks),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Blanks, call),
    .tp_call = PyVectorcall_Call,
    .tp_new = construct,
    .tp_dealloc = (destructor)dealloc,
};
