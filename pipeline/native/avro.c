/* Decodes the rows of an Avro block (Avro 1.12, "Binary Encoding"): the ordinary ones. For every other block, such as
 * one with a number that JSON does not have, it has no answer, and a library reads that block. */

#include "native.h"

#define MOST_KINDS 4096 /* in a schema */
#define DEEPEST 64

enum kind { NOTHING, BOOLEAN, LONG, FLOAT, DOUBLE, TEXT, ENUM, DATE, TIMESTAMP, CALL, UNION, ARRAY, MAP, RECORD, KINDS };
static const char *const kind_names[KINDS] = {
    "null", "boolean",   "long", "float", "double", "text", "enum",
    "date", "timestamp", "call", "union", "array",  "map",  "record",
};

/* A type of the schema. */
typedef struct Kind {
    enum kind kind;
    Py_ssize_t count;   /* of `inner`; of the bytes that are read before a call */
    struct Kind *inner; /* the fields, the branches of a union, the items, the type that a call converts; owned */
    PyObject *names;    /* a tuple of str: of the fields or the symbols; what a call converts with */
    PyObject *empty;    /* of a record: a dict of its names */
    PyObject *latest;   /* the latest ASCII text: columns repeat theirs */
    int64_t units;      /* of a timestamp, a second */
    int utc;            /* whether a timestamp ends in Z */
} Kind;

typedef struct {
    PyObject_HEAD
    Kind *root;         /* a record */
    Name **names;       /* of its fields; NULL where the table of names has no room for them */
    PyObject *unusual;  /* the type of what a call returns for a value that is not ordinary */
    int kinds;
    vectorcallfunc call;
} Decoder;

/* What remains of a block. */
typedef struct {
    const unsigned char *at, *end;
    Decoder *decoder;
} Rest;

/* --- the schema ------------------------------------------------------------------------------------------ */

static void
free_kind(Kind *kind)
{
    if (kind == NULL)
        return;
    if (kind->inner != NULL)
        for (Py_ssize_t i = 0; i < (kind->kind == CALL ? 1 : kind->count); i++)
            free_kind(&kind->inner[i]);
    PyMem_Free(kind->inner);
    Py_CLEAR(kind->names);
    Py_CLEAR(kind->empty);
    Py_CLEAR(kind->latest);
}

static int take_kind(Decoder *self, Kind *kind, PyObject *described, int depth);

static int
wrong_schema(void)
{
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "a schema was expected, as pipeline.extractors.avro_native describes it");
    return -1;
}

/* The types of a tuple, from an index on. */
static int
take_inner(Decoder *self, Kind *kind, PyObject *described, Py_ssize_t first, int depth)
{
    Py_ssize_t count = PyTuple_GET_SIZE(described) - first;
    if (count > 0 && (kind->inner = PyMem_Calloc((size_t)count, sizeof(Kind))) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (kind->kind != CALL)
        kind->count = count;
    for (Py_ssize_t i = 0; i < count; i++)
        if (take_kind(self, &kind->inner[i], PyTuple_GET_ITEM(described, first + i), depth + 1) < 0)
            return -1;
    return 0;
}

/* The names of a record's fields or an enum's symbols: distinct texts. */
static int
take_names(Kind *kind, PyObject *names)
{
    if (!PyTuple_CheckExact(names) || (kind->empty = PyDict_New()) == NULL)
        return wrong_schema();
    Py_ssize_t count = PyTuple_GET_SIZE(names);
    if ((kind->names = PyTuple_New(count)) == NULL)
        return -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *name = PyTuple_GET_ITEM(names, i);
        if (!PyUnicode_CheckExact(name))
            return wrong_schema();
        Py_INCREF(name);
        PyUnicode_InternInPlace(&name);
        PyTuple_SET_ITEM(kind->names, i, name);
        if (PyDict_SetItem(kind->empty, name, Py_None) < 0)
            return -1;
    }
    return PyDict_GET_SIZE(kind->empty) == count ? 0 : wrong_schema();
}

/* ("record", names, type…), ("union", type…), ("array" or "map", type), ("enum", symbols), ("timestamp", units, utc),
 * ("call", function, its second argument, type or number of bytes), and a name alone. */
static int
take_kind(Decoder *self, Kind *kind, PyObject *described, int depth)
{
    if (++self->kinds > MOST_KINDS || depth > DEEPEST || !PyTuple_CheckExact(described) ||
        PyTuple_GET_SIZE(described) < 1 || !PyUnicode_CheckExact(PyTuple_GET_ITEM(described, 0)))
        return wrong_schema();
    Py_ssize_t count = PyTuple_GET_SIZE(described);
    while (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(described, 0), kind_names[kind->kind]) != 0)
        if (++kind->kind == KINDS) {
            kind->kind = NOTHING;
            return wrong_schema();
        }
    switch (kind->kind) {
    case UNION:
        return take_inner(self, kind, described, 1, depth);
    case ARRAY:
    case MAP:
        return count != 2 ? wrong_schema() : take_inner(self, kind, described, 1, depth);
    case ENUM:
        return count != 2 ? wrong_schema() : take_names(kind, PyTuple_GET_ITEM(described, 1));
    case RECORD:
        if (count < 2 || take_names(kind, PyTuple_GET_ITEM(described, 1)) < 0)
            return wrong_schema();
        return PyTuple_GET_SIZE(kind->names) != count - 2 ? wrong_schema() : take_inner(self, kind, described, 2, depth);
    case TIMESTAMP:
        if (count != 3 || !PyLong_CheckExact(PyTuple_GET_ITEM(described, 1)))
            return wrong_schema();
        kind->units = PyLong_AsLongLong(PyTuple_GET_ITEM(described, 1));
        kind->utc = PyTuple_GET_ITEM(described, 2) == Py_True;
        return kind->units == 1000 || kind->units == 1000000 || kind->units == 1000000000 ? 0 : wrong_schema();
    case CALL:
        if (count != 4)
            return wrong_schema();
        kind->names = PyTuple_GetSlice(described, 1, 3);
        if (kind->names == NULL)
            return -1;
        if (!PyLong_CheckExact(PyTuple_GET_ITEM(described, 3)))
            return take_inner(self, kind, described, 3, depth);
        kind->count = PyLong_AsSsize_t(PyTuple_GET_ITEM(described, 3));
        return kind->count < -1 || PyErr_Occurred() ? wrong_schema() : 0;
    default:
        return count != 1 ? wrong_schema() : 0;
    }
}

/* --- values ---------------------------------------------------------------------------------------------- *
 * Each function returns NULL without an exception for what is not ordinary. */

/* A long: seven bits a byte, the lowest first, the sign in the last bit. 0 where it is not one of 64 bits. */
static inline int
read_long(Rest *rest, int64_t *number)
{
    uint64_t bits = 0;
    for (int shift = 0; shift < 70 && rest->at < rest->end; shift += 7) {
        unsigned char byte = *rest->at++;
        if (shift == 63 && byte > 1)
            return 0;
        bits |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *number = (int64_t)(bits >> 1) ^ -(int64_t)(bits & 1);
            return 1;
        }
    }
    return 0;
}

/* Some bytes with their number before them. 0 where they are not all there. */
static inline int
read_bytes(Rest *rest, const char **at, Py_ssize_t *length)
{
    int64_t size;
    if (!read_long(rest, &size) || size < 0 || size > rest->end - rest->at)
        return 0;
    *at = (const char *)rest->at;
    *length = (Py_ssize_t)size;
    rest->at += size;
    return 1;
}

static PyObject *
read_text(Rest *rest, Kind *kind)
{
    const char *at;
    Py_ssize_t length;
    if (!read_bytes(rest, &at, &length))
        return NULL;
    PyObject *latest = kind->latest;
    if (latest != NULL && PyUnicode_GET_LENGTH(latest) == length &&
        memcmp(PyUnicode_1BYTE_DATA(latest), at, (size_t)length) == 0)
        return Py_NewRef(latest);
    PyObject *text = PyUnicode_DecodeUTF8(at, length, "strict");
    if (text == NULL) {
        if (PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
            PyErr_Clear();
        return NULL;
    }
    if (PyUnicode_IS_COMPACT_ASCII(text))
        Py_XSETREF(kind->latest, Py_NewRef(text));
    return text;
}

/* Some bytes as a number, the lowest first. 0 where they are not all there. */
static inline int
read_bits(Rest *rest, int bytes, uint64_t *bits)
{
    if (rest->end - rest->at < bytes)
        return 0;
    *bits = 0;
    for (int i = bytes; i-- > 0;)
        *bits = *bits << 8 | rest->at[i];
    rest->at += bytes;
    return 1;
}

/* NaN and the infinities are not ordinary. */
static PyObject *
read_float(Rest *rest)
{
    uint64_t bits;
    if (!read_bits(rest, 4, &bits) || (bits >> 23 & 0xFF) == 0xFF)
        return NULL;
    uint32_t narrow = (uint32_t)bits;
    float number;
    memcpy(&number, &narrow, 4);
    return PyFloat_FromDouble((double)number);
}

static PyObject *
read_double(Rest *rest)
{
    uint64_t bits;
    double number;
    if (!read_bits(rest, 8, &bits) || (bits >> 52 & 0x7FF) == 0x7FF)
        return NULL;
    memcpy(&number, &bits, 8);
    return PyFloat_FromDouble(number);
}

/* A day since 1970 as a date, where its year is within 1 to 9999. */
static PyObject *
read_date(Rest *rest)
{
    int64_t day;
    char date[11];
    if (!read_long(rest, &day) || day < FIRST_DAY || day > LAST_DAY)
        return NULL;
    put_date(date, day);
    return PyUnicode_FromKindAndData(PyUnicode_1BYTE_KIND, date, 10);
}

static PyObject *
read_timestamp(Rest *rest, const Kind *kind)
{
    int64_t number;
    char text[32];
    if (!read_long(rest, &number))
        return NULL;
    int64_t a_day = 86400 * kind->units, day = number / a_day, of_day = number % a_day;
    if (of_day < 0) {
        day--;
        of_day += a_day;
    }
    if (day < FIRST_DAY || day > LAST_DAY)
        return NULL;
    put_date(text, day);
    unsigned second = (unsigned)(of_day / kind->units);
    char *end = put_number(text + 11, second / 3600, 2);
    *end++ = ':';
    end = put_number(end, second / 60 % 60, 2);
    *end++ = ':';
    end = put_number(end, second % 60, 2);
    *end++ = '.';
    end = put_number(end, (unsigned)(of_day % kind->units), kind->units == 1000 ? 3 : kind->units == 1000000 ? 6 : 9);
    if (kind->utc)
        *end++ = 'Z';
    return PyUnicode_FromKindAndData(PyUnicode_1BYTE_KIND, text, end - text);
}

static PyObject *read_value(Rest *rest, Kind *kind);

/* What a function of Python makes of a value, of so many bytes, or (-1) of bytes with their number before them. */
static PyObject *
read_call(Rest *rest, Kind *kind)
{
    PyObject *value = NULL;
    if (kind->inner != NULL)
        value = read_value(rest, kind->inner);
    else {
        const char *at = (const char *)rest->at;
        Py_ssize_t length = kind->count;
        if (length < 0 ? !read_bytes(rest, &at, &length) : length > rest->end - rest->at)
            return NULL;
        if (kind->count >= 0)
            rest->at += length;
        value = PyBytes_FromStringAndSize(at, length);
    }
    if (value == NULL)
        return NULL;
    PyObject *found = PyObject_CallFunctionObjArgs(PyTuple_GET_ITEM(kind->names, 0), value,
                                                   PyTuple_GET_ITEM(kind->names, 1), NULL);
    Py_DECREF(value);
    if (found != NULL && (PyObject *)Py_TYPE(found) == rest->decoder->unusual)
        Py_CLEAR(found);
    return found;
}

/* The number of items in the next part of an array or a map, 0 at its end; -1 for what is not ordinary. An item of no
 * bytes is none, so that few bytes are never many items. */
static Py_ssize_t
read_count(Rest *rest)
{
    int64_t count, size;
    if (!read_long(rest, &count) || count == INT64_MIN || (count < 0 && !read_long(rest, &size)))
        return -1;
    count = count < 0 ? -count : count;
    return count > rest->end - rest->at ? -1 : (Py_ssize_t)count;
}

static PyObject *
read_array(Rest *rest, Kind *kind)
{
    PyObject *list = PyList_New(0);
    Py_ssize_t count = 0;
    while (list != NULL && (count = read_count(rest)) > 0)
        for (; list != NULL && count > 0; count--) {
            PyObject *item = read_value(rest, kind->inner);
            if (item == NULL || PyList_Append(list, item) < 0)
                Py_CLEAR(list);
            Py_XDECREF(item);
        }
    if (count < 0)
        Py_CLEAR(list);
    return list;
}

static PyObject *
read_map(Rest *rest, Kind *kind)
{
    PyObject *dict = PyDict_New();
    Py_ssize_t count = 0;
    while (dict != NULL && (count = read_count(rest)) > 0)
        for (; dict != NULL && count > 0; count--) {
            PyObject *name = read_text(rest, kind), *value = name == NULL ? NULL : read_value(rest, kind->inner);
            if (value == NULL || PyDict_SetItem(dict, name, value) < 0)
                Py_CLEAR(dict);
            Py_XDECREF(name);
            Py_XDECREF(value);
        }
    if (count < 0)
        Py_CLEAR(dict);
    return dict;
}

/* A record as a dict. With `rows` its objects and lists are JSON texts. */
static PyObject *
read_record(Rest *rest, Kind *kind, int rows)
{
    PyObject *dict = PyDict_Copy(kind->empty); /* which needs no more room */
    for (Py_ssize_t i = 0; dict != NULL && i < kind->count; i++) {
        PyObject *value = read_value(rest, &kind->inner[i]);
        if (value != NULL && rows && (PyDict_CheckExact(value) || PyList_CheckExact(value)))
            Py_SETREF(value, raw_of(value));
        if (value == NULL || PyDict_SetItem(dict, PyTuple_GET_ITEM(kind->names, i), value) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

static PyObject *
read_value(Rest *rest, Kind *kind)
{
    int64_t number;
    switch (kind->kind) {
    case NOTHING:
        Py_RETURN_NONE;
    case BOOLEAN:
        return rest->at == rest->end || *rest->at > 1 ? NULL : PyBool_FromLong(*rest->at++);
    case LONG:
        return read_long(rest, &number) ? PyLong_FromLongLong(number) : NULL;
    case FLOAT:
        return read_float(rest);
    case DOUBLE:
        return read_double(rest);
    case TEXT:
        return read_text(rest, kind);
    case ENUM:
        if (!read_long(rest, &number) || number < 0 || number >= PyTuple_GET_SIZE(kind->names))
            return NULL;
        return Py_NewRef(PyTuple_GET_ITEM(kind->names, (Py_ssize_t)number));
    case DATE:
        return read_date(rest);
    case TIMESTAMP:
        return read_timestamp(rest, kind);
    case CALL:
        return read_call(rest, kind);
    case UNION:
        return read_long(rest, &number) && number >= 0 && number < kind->count ? read_value(rest, &kind->inner[number])
                                                                              : NULL;
    case ARRAY:
        return read_array(rest, kind);
    case MAP:
        return read_map(rest, kind);
    default:
        return read_record(rest, kind, 0);
    }
}

/* --- rows ------------------------------------------------------------------------------------------------ */

/* The root record as Members, without its nulls. */
static PyObject *
read_members(Rest *rest, Decoder *self)
{
    Members *row = members_new(NULL);
    for (Py_ssize_t i = 0; row != NULL && i < self->root->count; i++) {
        PyObject *value = read_value(rest, &self->root->inner[i]);
        if (value == Py_None) {
            Py_DECREF(value);
            continue;
        }
        if (value != NULL && (PyDict_CheckExact(value) || PyList_CheckExact(value)))
            Py_SETREF(value, raw_of(value));
        Member *member = value == NULL ? NULL : members_add(row);
        if (member != NULL)
            *member = (Member){.name = self->names[i]};
        if (member == NULL || members_put(member, value) < 0)
            Py_CLEAR(row);
        Py_XDECREF(value);
    }
    return (PyObject *)row;
}

/* decoder(content, rows, members): a list, or None where the block is not ordinary. */
static PyObject *
decode(PyObject *callable, PyObject *const *arguments, size_t flags, PyObject *named)
{
    Decoder *self = (Decoder *)callable;
    if (PyVectorcall_NARGS(flags) != 3 || named != NULL || !PyBytes_CheckExact(arguments[0]) ||
        !PyLong_CheckExact(arguments[1]) || !PyBool_Check(arguments[2]))
        return PyErr_Format(PyExc_TypeError, "the bytes of a block, its number of rows and a bool were expected");
    const unsigned char *content = (const unsigned char *)PyBytes_AS_STRING(arguments[0]);
    Rest rest = {content, content + PyBytes_GET_SIZE(arguments[0]), self};
    Py_ssize_t count = PyLong_AsSsize_t(arguments[1]);
    int members = arguments[2] == Py_True;
    if (count == -1 && PyErr_Occurred())
        return NULL;
    if (count < 0 || count > rest.end - rest.at || (members && self->names == NULL))
        Py_RETURN_NONE;
    PyObject *rows = PyList_New(count);
    for (Py_ssize_t i = 0; rows != NULL && i < count; i++) {
        PyObject *row = members ? read_members(&rest, self) : read_record(&rest, self->root, 1);
        if (row == NULL)
            Py_CLEAR(rows);
        else
            PyList_SET_ITEM(rows, i, row);
    }
    if (rows != NULL && rest.at == rest.end)
        return rows;
    Py_XDECREF(rows);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

static void
dealloc(Decoder *self)
{
    free_kind(self->root);
    PyMem_Free(self->root);
    PyMem_Free(self->names);
    Py_XDECREF(self->unusual);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* The names of the root's fields in the table, unless it has no room for one that is new. */
static int
take_member_names(Decoder *self)
{
    self->names = PyMem_Calloc((size_t)self->root->count + 1, sizeof(Name *));
    if (self->names == NULL)
        return -1;
    for (Py_ssize_t i = 0; i < self->root->count; i++) {
        PyObject *text = PyTuple_GET_ITEM(self->root->names, i);
        if ((self->names[i] = names_find(text)) != NULL)
            continue;
        if (!names_room(MOST_NAMES)) {
            PyMem_Free(self->names);
            self->names = NULL;
            return 0;
        }
        if ((self->names[i] = name_of(text)) == NULL)
            return -1;
    }
    return 0;
}

/* AvroDecoder(schema, unusual) */
static PyObject *
create(PyTypeObject *type, PyObject *arguments, PyObject *named)
{
    static char *words[] = {"schema", "unusual", NULL};
    PyObject *schema, *unusual;
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "OO!", words, &schema, &PyType_Type, &unusual))
        return NULL;
    Decoder *self = (Decoder *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->call = decode;
    self->unusual = Py_NewRef(unusual);
    self->root = PyMem_Calloc(1, sizeof(Kind));
    int done = self->root == NULL ? -1 : take_kind(self, self->root, schema, 0);
    if (done == 0 && self->root->kind != RECORD)
        done = wrong_schema();
    if (done == 0)
        done = take_member_names(self);
    if (done == 0)
        return (PyObject *)self;
    if (!PyErr_Occurred())
        PyErr_NoMemory();
    Py_DECREF(self);
    return NULL;
}

PyTypeObject AvroDecoder_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pipeline.native._native.AvroDecoder",
    .tp_basicsize = sizeof(Decoder),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = create,
    .tp_dealloc = (destructor)dealloc,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Decoder, call),
};
