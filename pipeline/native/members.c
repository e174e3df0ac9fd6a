/* The members of one JSON object: to Python like a dict[str, Raw] in the row's order, without an object for each. */

#include "native.h"

#ifdef __SANITIZE_ADDRESS__
#define KEPT 1 /* none is kept, so that a use after free shows */
#define MOST_KEPT 0
#else
#define KEPT 16 /* objects that are kept for the next row, with their room */
#define MOST_KEPT KEPT
#endif

static PyObject *raw_type, *encode, *decode_text;
static Members *kept[KEPT];
static int kept_count;

int
members_init(PyObject *raw_type_, PyObject *encode_, PyObject *decode_text_)
{
    raw_type = Py_NewRef(raw_type_);
    encode = Py_NewRef(encode_);
    decode_text = Py_NewRef(decode_text_);
    return 0;
}

/* --- the life of one ----------------------------------------------------------------------------------- */

Members *
members_new(PyObject *owner)
{
    Members *self;
    if (kept_count) {
        self = kept[--kept_count];
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
    for (Member *one = self->members, *end = one + self->used; one < end; one++)
        Py_CLEAR(one->value);
    self->used = self->live = 0;
    Py_CLEAR(self->owner);
    if (kept_count < MOST_KEPT && self->room <= 256) {
        kept[kept_count++] = self;
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

/* Members within Members would be let go of without end, and may hold each other; a row has but one opened object, and
 * it is made here. */
static int
is_no_value(PyObject *value)
{
    if (value == NULL || !Members_Check(value))
        return 0;
    PyErr_SetString(PyExc_TypeError, "Members are not a value");
    return 1;
}

int
members_share(Members *self, const Members *row, const Member *held, Name *name)
{
    Member shared = {name, held->value, held->at, held->length}; /* it may lie in what grows below */
    if (self->owner == NULL)
        self->owner = Py_XNewRef(row->owner);
    if (self->owner != row->owner) {
        PyErr_SetString(PyExc_ValueError, "the members are of two rows");
        return -1;
    }
    if (is_no_value(shared.value) || (shared.value == NULL && shared.at == NULL))
        return PyErr_Occurred() ? -1 : 0;
    Py_XINCREF(shared.value);
    Member *one = members_add(self);
    if (one == NULL) {
        Py_XDECREF(shared.value);
        return -1;
    }
    *one = shared;
    return 0;
}

/* What a value's own end does comes last: it may change the members. */
static void
take_out(Members *self, Member *one)
{
    PyObject *value = one->value;
    *one = (Member){NULL, NULL, NULL, 0};
    self->live--;
    Py_XDECREF(value);
}

Member *
members_find_name(Members *self, const Name *name)
{
    for (Member *one = self->members, *end = one + self->used; one < end; one++)
        if (one->name == name)
            return one;
    return NULL;
}

Member *
members_find(Members *self, PyObject *name)
{
    for (Member *one = self->members, *end = one + self->used; one < end; one++)
        if (one->name != NULL && one->name->text == name)
            return one;
    /* All names are interned: another interned text is another name. */
    if (!PyUnicode_CheckExact(name) || PyUnicode_CHECK_INTERNED(name))
        return NULL;
    const Name *known = names_known(name);
    return known == NULL ? NULL : members_find_name(self, known);
}

PyObject *
member_value(const Member *member)
{
    if (member->value != NULL)
        return Py_NewRef(member->value);
    PyObject *bytes = PyBytes_FromStringAndSize(member->at, member->length);
    if (bytes == NULL)
        return NULL;
    PyObject *raw = PyObject_CallOneArg(raw_type, bytes);
    Py_DECREF(bytes);
    return raw;
}

static int
put(Member *one, PyObject *value)
{
    const char *at = NULL;
    Py_ssize_t length = 0;
    if (is_no_value(value))
        return -1;
    if ((PyObject *)Py_TYPE(value) == raw_type) {
        Py_buffer view;
        if (PyObject_GetBuffer(value, &view, PyBUF_SIMPLE) < 0)
            return -1;
        at = view.buf;
        length = view.len;
        PyBuffer_Release(&view); /* a Raw never changes, and the member keeps it */
    }
    PyObject *before = one->value;
    *one = (Member){one->name, Py_NewRef(value), at, length};
    Py_XDECREF(before); /* last: it may change the members */
    return 0;
}

int
members_set(Members *self, PyObject *name, PyObject *value)
{
    Member *one = members_find(self, name);
    if (one != NULL)
        return put(one, value);
    Name *known = name_of(name);
    if (known == NULL || (one = members_add(self)) == NULL)
        return -1;
    *one = (Member){known, NULL, NULL, 0};
    if (put(one, value) == 0)
        return 0;
    take_out(self, one);
    return -1;
}

int
members_encode(Members *self, Py_ssize_t place)
{
    PyObject *value = Py_NewRef(self->members[place].value);
    PyObject *json = PyObject_CallOneArg(encode, value);
    PyObject *raw = json == NULL ? NULL : PyObject_CallOneArg(raw_type, json);
    Py_XDECREF(json);
    int done = raw == NULL ? -1 : 0;
    if (done == 0 && (place >= self->used || self->members[place].value != value)) {
        PyErr_SetString(PyExc_RuntimeError, "the members changed while they were encoded");
        done = -1;
    }
    if (done == 0)
        done = put(&self->members[place], raw);
    Py_XDECREF(raw);
    Py_DECREF(value);
    return done;
}

/* --- as a dict ----------------------------------------------------------------------------------------- */

static PyObject *
wrong_count(const char *function)
{
    return PyErr_Format(PyExc_TypeError, "%s got a wrong number of arguments", function);
}

static PyObject *
get(Members *self, PyObject *const *given, Py_ssize_t count)
{
    if (count != 1 && count != 2)
        return wrong_count("get");
    Member *one = members_find(self, given[0]);
    if (one == NULL)
        return Py_NewRef(count == 2 ? given[1] : Py_None);
    return member_value(one);
}

static PyObject *
pop(Members *self, PyObject *const *given, Py_ssize_t count)
{
    if (count != 1 && count != 2)
        return wrong_count("pop");
    Member *one = members_find(self, given[0]);
    if (one == NULL) {
        if (count == 2)
            return Py_NewRef(given[1]);
        PyErr_SetObject(PyExc_KeyError, given[0]);
        return NULL;
    }
    Member out = *one;
    *one = (Member){NULL, NULL, NULL, 0};
    self->live--;
    if (out.value != NULL)
        return out.value;
    return member_value(&out);
}

static PyObject *
setdefault(Members *self, PyObject *const *given, Py_ssize_t count)
{
    if (count != 2)
        return wrong_count("setdefault");
    Member *one = members_find(self, given[0]);
    if (one != NULL)
        return member_value(one);
    if (members_set(self, given[0], given[1]) < 0)
        return NULL;
    return Py_NewRef(given[1]);
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
    Member *one = members_find(self, name);
    if (one != NULL)
        return member_value(one);
    PyErr_SetObject(PyExc_KeyError, name);
    return NULL;
}

static int
assign(Members *self, PyObject *name, PyObject *value)
{
    if (value != NULL)
        return members_set(self, name, value);
    Member *one = members_find(self, name);
    if (one == NULL) {
        PyErr_SetObject(PyExc_KeyError, name);
        return -1;
    }
    take_out(self, one);
    return 0;
}

/* --- what a dict does not have ------------------------------------------------------------------------- */

/* The value as text: `pipeline.values.text` of it. */
static PyObject *
text(Members *self, PyObject *name)
{
    Member *one = members_find(self, name);
    if (one == NULL || member_is_null(one))
        Py_RETURN_NONE;
    if (one->at == NULL || one->length == 0 || (*one->at == '"' && one->length < 2)) {
        PyErr_SetString(PyExc_TypeError, "a value of the row was expected");
        return NULL;
    }
    if (*one->at != '"')
        return PyUnicode_DecodeUTF8(one->at, one->length, NULL);
    if (memchr(one->at, '\\', (size_t)one->length) == NULL)
        return PyUnicode_DecodeUTF8(one->at + 1, one->length - 2, NULL);
    PyObject *json = PyBytes_FromStringAndSize(one->at, one->length);
    if (json == NULL)
        return NULL;
    PyObject *found = PyObject_CallOneArg(decode_text, json);
    Py_DECREF(json);
    return found;
}

/* The value; None where it is missing or JSON null. */
static PyObject *
given(Members *self, PyObject *name)
{
    Member *one = members_find(self, name);
    if (one == NULL || member_is_null(one))
        Py_RETURN_NONE;
    return member_value(one);
}

/* A whole number as an int, where its digits are those that the int has; anything else as `get` gives it. */
static PyObject *
number(Members *self, PyObject *name)
{
    Member *one = members_find(self, name);
    if (one == NULL)
        Py_RETURN_NONE;
    const char *at = one->at, *end = at + one->length;
    int negative = at != NULL && at < end && *at == '-';
    at += negative;
    if (one->at == NULL || at == end || end - at > 18 || (*at == '0' && (negative || end - at > 1)))
        return member_value(one);
    long long found = 0;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9')
            return member_value(one);
        found = found * 10 + (*at - '0');
    }
    return PyLong_FromLongLong(negative ? -found : found);
}

/* copy(name, row, column): put what the row has in a column under `name`. False where the name is taken; a column
 * that is missing or null is no value. */
static PyObject *
copy(Members *self, PyObject *const *given, Py_ssize_t count)
{
    if (count != 3 || !Members_Check(given[1]))
        return wrong_count("copy");
    Members *row = (Members *)given[1];
    Member *held = members_find(row, given[2]);
    if (held == NULL || member_is_null(held))
        Py_RETURN_TRUE;
    if (members_find(self, given[0]) != NULL)
        Py_RETURN_FALSE;
    Name *name = name_of(given[0]);
    if (name == NULL || (held = members_find(row, given[2])) == NULL || members_share(self, row, held, name) < 0)
        return NULL;
    Py_RETURN_TRUE;
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
    {"pop", FAST(pop), METH_FASTCALL, NULL},
    {"setdefault", FAST(setdefault), METH_FASTCALL, NULL},
    {"keys", FAST(keys), METH_NOARGS, NULL},
    {"values", FAST(values), METH_NOARGS, NULL},
    {"items", FAST(items), METH_NOARGS, NULL},
    {"text", FAST(text), METH_O, NULL},
    {"number", FAST(number), METH_O, NULL},
    {"given", FAST(given), METH_O, NULL},
    {"copy", FAST(copy), METH_FASTCALL, NULL},
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
