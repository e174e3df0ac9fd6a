/* The members of one JSON object: for Python a dict[str, Raw] in the row's order, without an object for each. */

#include "native.h"

#ifdef __SANITIZE_ADDRESS__
#define POOL 1 /* kept empty, so that the sanitizer reports a use after free */
#define POOL_LIMIT 0
#else
#define POOL 16 /* freed objects for the next rows, with their room */
#define POOL_LIMIT POOL
#endif

static PyObject *raw_type, *encode, *decode_text;
static Members *pool[POOL];
static int pooled;

int
members_init(PyObject *raw_type_, PyObject *encode_, PyObject *decode_text_)
{
    raw_type = Py_NewRef(raw_type_);
    encode = Py_NewRef(encode_);
    decode_text = Py_NewRef(decode_text_);
    return 0;
}

/* --- creation and changes ----------------------------------------------------------------------------------- */

Members *
members_new(PyObject *owner)
{
    Members *self;
    if (pooled) {
        self = pool[--pooled];
        (void)PyObject_Init((PyObject *)self, &Members_Type);
    }
    else {
        self = PyObject_New(Members, &Members_Type);
        if (self == NULL)
            return NULL;
        self->members = NULL;
        self->room = 0;
    }
    self->owner = Py_XNewRef(owner);
    self->used = self->live = 0;
    return self;
}

static void
members_dealloc(Members *self)
{
    for (Member *member = self->members, *end = member + self->used; member < end; member++)
        Py_CLEAR(member->value);
    self->used = self->live = 0;
    Py_CLEAR(self->owner);
    if (pooled < POOL_LIMIT && self->room <= 256) {
        pool[pooled++] = self;
        return;
    }
    PyMem_Free(self->members);
    PyObject_Free(self);
}

Member *
members_add(Members *self)
{
    if (self->used == self->room) {
        Py_ssize_t more = self->room ? self->room * 2 : 32;
        Member *larger = PyMem_Realloc(self->members, (size_t)more * sizeof(Member));
        if (larger == NULL)
            return (Member *)PyErr_NoMemory();
        self->members = larger;
        self->room = more;
    }
    self->live++;
    return &self->members[self->used++];
}

/* Sets an exception for Members as a value: nested endlessly, they would overflow the stack when freed, and they could
 * refer to each other. Only lines.c nests them, one level deep. */
static int
refuse_members(PyObject *value)
{
    if (value == NULL || !Members_Check(value))
        return 0;
    PyErr_SetString(PyExc_TypeError, "Members are not a value");
    return 1;
}

int
members_share(Members *self, const Members *row, const Member *source, Name *name)
{
    Member shared = *source; /* `source` may move when `self` grows */
    shared.name = name;
    if (refuse_members(shared.value) || (shared.value == NULL && shared.at == NULL && shared.cell == NULL))
        return PyErr_Occurred() ? -1 : 0;
    if (shared.value != NULL)
        Py_INCREF(shared.value);
    else if (self->owner == NULL)
        self->owner = Py_XNewRef(row->owner);
    else if (self->owner != row->owner) { /* the row may be freed before this object */
        shared.value = member_value(source);
        if (shared.value == NULL)
            return -1;
        member_of_raw(&shared, shared.value);
        shared.name = name;
    }
    Member *member = members_add(self);
    if (member == NULL) {
        Py_XDECREF(shared.value);
        return -1;
    }
    *member = shared;
    return 0;
}

/* The value is released last: that may run Python, which may change the members. */
void
members_remove(Members *self, Member *member)
{
    PyObject *value = member->value;
    *member = (Member){.name = NULL};
    self->live--;
    Py_XDECREF(value);
}

Member *
members_find_name(Members *self, const Name *name)
{
    for (Member *member = self->members, *end = member + self->used; member < end; member++)
        if (member->name == name)
            return member;
    return NULL;
}

Member *
members_find(Members *self, PyObject *name)
{
    for (Member *member = self->members, *end = member + self->used; member < end; member++)
        if (member->name != NULL && member->name->text == name)
            return member;
    /* All names are interned: another interned string is another name. */
    if (!PyUnicode_CheckExact(name) || PyUnicode_CHECK_INTERNED(name))
        return NULL;
    const Name *own_name = names_find(name);
    return own_name == NULL ? NULL : members_find_name(self, own_name);
}

PyObject *
member_value(const Member *member)
{
    if (member->value != NULL)
        return Py_NewRef(member->value);
    if (member->cell != NULL)
        return PyUnicode_DecodeUTF8(member->cell, member->length, NULL);
    return raw_of_text(member->at, member->length);
}

PyObject *
raw_of_text(const char *at, Py_ssize_t length)
{
    PyObject *bytes = PyBytes_FromStringAndSize(at, length);
    if (bytes == NULL)
        return NULL;
    PyObject *raw = PyObject_CallOneArg(raw_type, bytes);
    Py_DECREF(bytes);
    return raw;
}

int
member_of_raw(Member *member, PyObject *value)
{
    *member = (Member){.value = value};
    if ((PyObject *)Py_TYPE(value) != raw_type)
        return 0;
    Py_buffer view;
    if (PyObject_GetBuffer(value, &view, PyBUF_SIMPLE) < 0)
        return -1;
    member->at = view.buf;
    member->length = view.len;
    PyBuffer_Release(&view); /* a Raw never changes */
    return 0;
}

int
members_put(Member *member, PyObject *value)
{
    Member put;
    if (refuse_members(value) || member_of_raw(&put, value) < 0)
        return -1;
    PyObject *previous = member->value;
    *member = (Member){member->name, Py_NewRef(value), put.at, put.length, NULL};
    Py_XDECREF(previous); /* last: it may change the members */
    return 0;
}

int
members_set(Members *self, PyObject *name, PyObject *value)
{
    Member *member = members_find(self, name);
    if (member != NULL)
        return members_put(member, value);
    Name *own_name = name_of(name);
    if (own_name == NULL || (member = members_add(self)) == NULL)
        return -1;
    *member = (Member){.name = own_name};
    if (members_put(member, value) == 0)
        return 0;
    members_remove(self, member);
    return -1;
}

PyObject *
raw_of(PyObject *value)
{
    PyObject *json = PyObject_CallOneArg(encode, value);
    PyObject *raw = json == NULL ? NULL : PyObject_CallOneArg(raw_type, json);
    Py_XDECREF(json);
    return raw;
}

int
members_encode(Members *self, Py_ssize_t index)
{
    PyObject *value = Py_NewRef(self->members[index].value);
    PyObject *raw = raw_of(value);
    int done = raw == NULL ? -1 : 0;
    if (done == 0 && (index >= self->used || self->members[index].value != value)) {
        PyErr_SetString(PyExc_RuntimeError, "the members changed while they were encoded");
        done = -1;
    }
    if (done == 0)
        done = members_put(&self->members[index], raw);
    Py_XDECREF(raw);
    Py_DECREF(value);
    return done;
}

/* --- as a dict ----------------------------------------------------------------------------------------- */

static PyObject *
get(Members *self, PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 1 && count != 2)
        return PyErr_Format(PyExc_TypeError, "wrong arguments for get");
    Member *member = members_find(self, arguments[0]);
    if (member == NULL)
        return Py_NewRef(count == 2 ? arguments[1] : Py_None);
    return member_value(member);
}

static PyObject *
setdefault(Members *self, PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "wrong arguments for setdefault");
    Member *member = members_find(self, arguments[0]);
    if (member != NULL)
        return member_value(member);
    if (members_set(self, arguments[0], arguments[1]) < 0)
        return NULL;
    return Py_NewRef(arguments[1]);
}

enum part { KEYS, VALUES, ITEMS };

static PyObject *
listed(Members *self, enum part part)
{
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list != NULL && i < self->used; i++) {
        const Name *name = self->members[i].name;
        if (name == NULL)
            continue;
        PyObject *item = part == KEYS ? Py_NewRef(name->text) : member_value(&self->members[i]);
        if (part == ITEMS && item != NULL)
            item = Py_BuildValue("(ON)", name->text, item);
        if (item == NULL || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

/* Makes dict() accept Members as a mapping. */
static PyObject *
keys(Members *self, PyObject *Py_UNUSED(ignored))
{
    return listed(self, KEYS);
}

static PyObject *
values(Members *self, PyObject *Py_UNUSED(ignored))
{
    return listed(self, VALUES);
}

static PyObject *
items(Members *self, PyObject *Py_UNUSED(ignored))
{
    return listed(self, ITEMS);
}

static PyObject *
iterate(Members *self)
{
    PyObject *list = listed(self, KEYS);
    if (list == NULL)
        return NULL;
    PyObject *iterator = PyObject_GetIter(list);
    Py_DECREF(list);
    return iterator;
}

static Py_ssize_t
length(Members *self)
{
    return self->live;
}

static int
contains(Members *self, PyObject *name)
{
    return members_find(self, name) != NULL;
}

static PyObject *
subscript(Members *self, PyObject *name)
{
    Member *member = members_find(self, name);
    if (member != NULL)
        return member_value(member);
    PyErr_SetObject(PyExc_KeyError, name);
    return NULL;
}

static int
assign(Members *self, PyObject *name, PyObject *value)
{
    if (value != NULL)
        return members_set(self, name, value);
    Member *member = members_find(self, name);
    if (member == NULL) {
        PyErr_SetObject(PyExc_KeyError, name);
        return -1;
    }
    members_remove(self, member);
    return 0;
}

/* --- beyond a dict ------------------------------------------------------------------------- */

/* The text of a value that is not a Raw. */
static PyObject *
text_of(PyObject *value)
{
    if (value == NULL || value == Py_None)
        Py_RETURN_NONE;
    if (PyUnicode_Check(value))
        return Py_NewRef(value);
    if (Members_Check(value))
        return PyErr_Format(PyExc_TypeError, "a value of the row was expected");
    PyObject *json = PyObject_CallOneArg(encode, value);
    PyObject *characters = json == NULL ? NULL : PyUnicode_FromEncodedObject(json, "utf-8", "strict");
    Py_XDECREF(json);
    return characters;
}

PyObject *
member_text(const Member *member)
{
    if (member_is_null(member))
        Py_RETURN_NONE;
    if (member->cell != NULL)
        return member_value(member);
    if (member->at == NULL) {
        PyObject *value = Py_XNewRef(member->value), *characters = text_of(value);
        Py_XDECREF(value);
        return characters;
    }
    if (member->length == 0 || (*member->at == '"' && member->length < 2))
        return PyErr_Format(PyExc_TypeError, "a value of the row was expected");
    if (*member->at != '"')
        return PyUnicode_DecodeUTF8(member->at, member->length, NULL);
    if (memchr(member->at, '\\', (size_t)member->length) == NULL)
        return PyUnicode_DecodeUTF8(member->at + 1, member->length - 2, NULL);
    PyObject *json = PyBytes_FromStringAndSize(member->at, member->length);
    if (json == NULL)
        return NULL;
    PyObject *characters = PyObject_CallOneArg(decode_text, json);
    Py_DECREF(json);
    return characters;
}

static PyObject *
text(Members *self, PyObject *name)
{
    const Member *member = members_find(self, name);
    return member == NULL ? Py_NewRef(Py_None) : member_text(member);
}

/* The value; None if it is missing or JSON null. */
static PyObject *
not_null(Members *self, PyObject *name)
{
    Member *member = members_find(self, name);
    if (member == NULL || member_is_null(member))
        Py_RETURN_NONE;
    return member_value(member);
}

/* A whole number as an int if it is spelled like one; anything else as `get` returns it. */
static PyObject *
number(Members *self, PyObject *name)
{
    Member *member = members_find(self, name);
    if (member == NULL)
        Py_RETURN_NONE;
    if (member->at == NULL)
        return member_value(member);
    const char *at = member->at, *end = at + member->length;
    int negative = at < end && *at == '-';
    at += negative;
    if (at == end || end - at > 18 || (*at == '0' && (negative || end - at > 1)))
        return member_value(member);
    long long whole = 0;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9')
            return member_value(member);
        whole = whole * 10 + (*at - '0');
    }
    return PyLong_FromLongLong(negative ? -whole : whole);
}

static uint64_t
hash_names(const Members *self, uint64_t hash)
{
    for (Py_ssize_t i = 0; i < self->used; i++) {
        const Member *member = &self->members[i];
        if (member->name == NULL)
            continue;
        hash = (hash ^ (uint64_t)(member->name->number + 1)) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 32;
        if (member->value != NULL && Members_Check(member->value)) /* one level deep, see refuse_members */
            hash = hash_names((const Members *)member->value, ~hash) + 1;
    }
    return hash;
}

static PyObject *
shape(Members *self, PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromUnsignedLongLong(hash_names(self, 0));
}

/* The same members in a new object. */
static PyObject *
twin(Members *self, PyObject *Py_UNUSED(ignored))
{
    Members *other = members_new(self->owner);
    for (Py_ssize_t i = 0; other != NULL && i < self->used; i++) {
        const Member *source = &self->members[i];
        if (source->name != NULL && members_share(other, self, source, source->name) < 0)
            Py_CLEAR(other);
    }
    return (PyObject *)other;
}

static PyObject *
as_dict(Members *self, PyObject *Py_UNUSED(ignored))
{
    PyObject *dict = PyDict_New();
    if (dict == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < self->used; i++) {
        const Name *name = self->members[i].name;
        if (name == NULL)
            continue;
        PyObject *value = member_value(&self->members[i]);
        if (value == NULL || PyDict_SetItem(dict, name->text, value) < 0) {
            Py_XDECREF(value);
            Py_DECREF(dict);
            return NULL;
        }
        Py_DECREF(value);
    }
    return dict;
}

#define FAST(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef methods[] = {
    {"get", FAST(get), METH_FASTCALL, NULL},
    {"setdefault", FAST(setdefault), METH_FASTCALL, NULL},
    {"keys", FAST(keys), METH_NOARGS, NULL},
    {"values", FAST(values), METH_NOARGS, NULL},
    {"items", FAST(items), METH_NOARGS, NULL},
    {"text", FAST(text), METH_O, NULL},
    {"number", FAST(number), METH_O, NULL},
    {"given", FAST(not_null), METH_O, NULL},
    {"shape", FAST(shape), METH_NOARGS, NULL},
    {"twin", FAST(twin), METH_NOARGS, NULL},
    {"as_dict", FAST(as_dict), METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMappingMethods as_mapping = {(lenfunc)length, (binaryfunc)subscript, (objobjargproc)assign};
static PySequenceMethods as_sequence = {.sq_contains = (objobjproc)contains};

PyTypeObject Members_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pipeline.native._native.Members",
    .tp_basicsize = sizeof(Members),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = (destructor)members_dealloc,
    .tp_iter = (getiterfunc)iterate,
    .tp_as_mapping = &as_mapping,
    .tp_as_sequence = &as_sequence,
    .tp_methods = methods,
    .tp_hash = PyObject_HashNotImplemented,
};
