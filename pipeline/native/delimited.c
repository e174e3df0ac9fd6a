/* The records of a delimited text, as lists of cells: all of them that one rule is enough for.
 *
 * A record is ordinary where Python's csv reader would read it as it is read here: its quotes are closed and followed by
 * a delimiter or an end of line, a carriage return stands before a newline, the bytes are UTF-8, and it is short where it
 * has several lines. The reader stops before any other, and goes on behind it when `at` is set. */

#include "native.h"

#define LONG_RECORD (1 << 20) /* bytes of a record of several lines, beyond which others decide where it ends */
#define MANY_LINES 10000

enum { PLAIN = 0, DELIMITER = 1, LINE = 2, RETURN = 4, WIDE = 8 };

typedef struct {
    PyObject_HEAD
    PyObject *data;
    Py_ssize_t at;    /* where the next record begins */
    Py_ssize_t lines; /* of the last record */
    int quote;        /* -1 for none */
    char delimiter;
    unsigned char kinds[256];
} Delimited;

/* A cell of these bytes, of which `wide` tells whether one is beyond ASCII. NULL without an exception where they are not
 * UTF-8. */
static PyObject *
cell_of(const char *from, const char *to, int wide)
{
    PyObject *cell;
    if (!wide) {
        if ((cell = PyUnicode_New(to - from, 127)) != NULL && to > from)
            memcpy(PyUnicode_1BYTE_DATA(cell), from, (size_t)(to - from));
        return cell;
    }
    cell = PyUnicode_DecodeUTF8(from, to - from, NULL);
    if (cell == NULL && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
        PyErr_Clear();
    return cell;
}

/* The cell whose opening quote is before `*from`; `*from` is moved behind its closing quote. NULL without an exception
 * where it has none. */
static PyObject *
quoted_cell(Delimited *self, const char **from, const char *end, Py_ssize_t *lines)
{
    const char *start = *from, *at = start;
    Py_ssize_t doubled = 0;
    int wide = 0;
    for (;; at++) {
        if (at == end)
            return NULL;
        if (*at == (char)self->quote) {
            if (at + 1 == end || at[1] != (char)self->quote)
                break;
            doubled++;
            at++;
        }
        else if (*at == '\n')
            ++*lines;
        wide |= (unsigned char)*at & 0x80;
    }
    *from = at + 1;
    if (!doubled)
        return cell_of(start, at, wide);
    char *text = PyMem_Malloc((size_t)(at - start)), *to = text;
    if (text == NULL)
        return PyErr_NoMemory();
    for (const char *one = start; one < at; one++) {
        *to++ = *one;
        one += *one == (char)self->quote;
    }
    PyObject *cell = cell_of(text, to, wide);
    PyMem_Free(text);
    return cell;
}

/* The record at `at`. NULL without an exception at the end, and where it is not ordinary. */
static PyObject *
next_record(Delimited *self)
{
    const char *data = PyBytes_AS_STRING(self->data), *end = data + PyBytes_GET_SIZE(self->data);
    const char *start = data + self->at, *at = start;
    Py_ssize_t lines = 1;
    if (at >= end)
        return NULL;
    PyObject *cells = PyList_New(0);
    if (cells == NULL)
        return NULL;
    if (*at == '\n' || (*at == '\r' && at + 1 < end && at[1] == '\n')) {
        at += 1 + (*at == '\r');
        goto done; /* a blank line is a record without cells */
    }
    for (;;) {
        PyObject *cell;
        if (at < end && *at == (char)self->quote && self->quote >= 0) {
            at++;
            cell = quoted_cell(self, &at, end, &lines);
            if (cell != NULL && at < end && !(self->kinds[(unsigned char)*at] & (DELIMITER | LINE | RETURN)))
                Py_CLEAR(cell); /* text after a closing quote */
        }
        else {
            const char *from = at;
            unsigned char kind = 0, seen = 0;
            while (at < end && !((kind = self->kinds[(unsigned char)*at]) & (DELIMITER | LINE | RETURN))) {
                seen |= kind;
                at++;
            }
            cell = cell_of(from, at, seen & WIDE);
        }
        if (cell == NULL || PyList_Append(cells, cell) < 0) {
            Py_XDECREF(cell);
            Py_DECREF(cells);
            return NULL;
        }
        Py_DECREF(cell);
        if (at == end)
            break;
        if (*at == self->delimiter) {
            at++;
            continue;
        }
        if (*at == '\r' && (at + 1 == end || *++at != '\n')) {
            Py_DECREF(cells);
            return NULL;
        }
        at++;
        break;
    }
    if (lines > 1 && (lines > MANY_LINES || at - start > LONG_RECORD)) {
        Py_DECREF(cells);
        return NULL;
    }
done:
    self->at = at - data;
    self->lines = lines;
    return cells;
}

static PyObject *
construct(PyTypeObject *type, PyObject *arguments, PyObject *named)
{
    PyObject *data;
    Py_ssize_t at = 0;
    int delimiter, quote;
    static char *keywords[] = {"data", "delimiter", "quote", "at", NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "O!ii|n", keywords, &PyBytes_Type, &data, &delimiter, &quote,
                                     &at))
        return NULL;
    if (delimiter < 0 || delimiter > 127 || delimiter == '\n' || delimiter == '\r' || delimiter == quote ||
        quote < -1 || quote > 127 || quote == '\n' || quote == '\r' || at < 0)
        return PyErr_Format(PyExc_ValueError, "a delimiter and a quote are ASCII, and differ");
    Delimited *self = (Delimited *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->data = Py_NewRef(data);
    self->at = at;
    self->delimiter = (char)delimiter;
    self->quote = quote;
    memset(self->kinds + 128, WIDE, 128);
    self->kinds[delimiter] |= DELIMITER;
    self->kinds['\n'] |= LINE;
    self->kinds['\r'] |= RETURN;
    return (PyObject *)self;
}

static void
dealloc(Delimited *self)
{
    Py_XDECREF(self->data);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static int
set_at(Delimited *self, PyObject *value, void *closure)
{
    (void)closure;
    Py_ssize_t at = value == NULL ? -1 : PyLong_AsSsize_t(value);
    if (at < 0) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "a place in the data was expected");
        return -1;
    }
    self->at = at;
    return 0;
}

static PyObject *
get_at(Delimited *self, void *closure)
{
    (void)closure;
    return PyLong_FromSsize_t(self->at);
}

static PyObject *
get_lines(Delimited *self, void *closure)
{
    (void)closure;
    return PyLong_FromSsize_t(self->lines);
}

static PyGetSetDef attributes[] = {
    {"at", (getter)get_at, (setter)set_at, NULL, NULL},
    {"lines", (getter)get_lines, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject Delimited_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pipeline.native._native.Delimited",
    .tp_basicsize = sizeof(Delimited),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = construct,
    .tp_dealloc = (destructor)dealloc,
    .tp_iter = PyObject_SelfIter,
    .tp_iternext = (iternextfunc)next_record,
    .tp_getset = attributes,
};
