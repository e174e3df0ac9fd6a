/* The records of a delimited text, as lists of cells or as Members: every record for which one rule is enough.
 *
 * A record is ordinary if Python's csv reader would read it exactly as here: its quotes are closed and followed by
 * a delimiter or a line end, a carriage return only comes before a newline, the bytes are UTF-8, and it is short if it
 * has several lines. The reader stops before any other record, and continues when `at` is set. */

#include "native.h"
#include <structmember.h>

#define LONG_RECORD (1 << 20) /* if a record of several lines has more bytes, Python decides where it ends */
#define MANY_LINES 10000

enum { PLAIN = 0, DELIMITER = 1, LINE = 2, RETURN = 4, WIDE = 8 };

typedef struct {
    PyObject_HEAD
    PyObject *data;
    PyObject *cells;  /* what makes Members of a record, or NULL */
    Py_ssize_t at;    /* where the next record begins */
    Py_ssize_t next;  /* where the record after it begins, once its cells are found */
    Py_ssize_t lines; /* lines of the last record */
    Py_ssize_t rows;  /* the records that were returned */
    Span *spans;      /* the cells of the last record: `count`, in an array of `room` */
    Py_ssize_t count, room;
    int quote;        /* -1 for none */
    char delimiter;
    unsigned char kinds[256];
} Delimited;

PyObject *
text_of_span(const Span *span)
{
    PyObject *cell;
    if (!span->doubled) {
        if (span->wide)
            return PyUnicode_DecodeUTF8(span->at, span->length, NULL);
        if ((cell = PyUnicode_New(span->length, 127)) != NULL && span->length > 0)
            memcpy(PyUnicode_1BYTE_DATA(cell), span->at, (size_t)span->length);
        return cell;
    }
    char *text = PyMem_Malloc((size_t)span->length), *to = text;
    if (text == NULL)
        return PyErr_NoMemory();
    for (const char *one = span->at, *end = one + span->length; one < end; one++) {
        *to++ = *one;
        one += *one == span->quote;
    }
    cell = PyUnicode_DecodeUTF8(text, to - text, NULL);
    PyMem_Free(text);
    return cell;
}

/* The cell whose opening quote is before `*from`; `*from` is moved past its closing quote. 0 if it has none. */
static int
quoted_cell(Delimited *self, const char **from, const char *end, Span *span, Py_ssize_t *lines)
{
    const char *at = *from;
    *span = (Span){.at = at, .quote = (char)self->quote};
    for (;; at++) {
        if (at == end)
            return 0;
        if (*at == (char)self->quote) {
            if (at + 1 == end || at[1] != (char)self->quote)
                break;
            span->doubled = 1;
            at++;
        }
        else if (*at == '\n')
            ++*lines;
        span->wide |= ((unsigned char)*at & 0x80) != 0;
    }
    span->length = at - span->at;
    *from = at + 1;
    return 1;
}

/* Room for one more span; NULL with an exception. */
static Span *
add_span(Delimited *self)
{
    if (self->count == self->room) {
        Py_ssize_t more = self->room ? self->room * 2 : 64;
        Span *larger = PyMem_Realloc(self->spans, (size_t)more * sizeof(Span));
        if (larger == NULL)
            return (Span *)PyErr_NoMemory();
        self->spans = larger;
        self->room = more;
    }
    return &self->spans[self->count++];
}

/* Find the cells of the record at `at`; a blank line has none. 1; 0 at the end, or if it is not ordinary; -1 with an
 * exception. */
static int
find_cells(Delimited *self)
{
    self->count = 0;
    if (self->at < 0 || self->at >= PyBytes_GET_SIZE(self->data))
        return 0;
    const char *data = PyBytes_AS_STRING(self->data), *end = data + PyBytes_GET_SIZE(self->data);
    const char *start = data + self->at, *at = start;
    Py_ssize_t lines = 1;
    if (*at == '\n' || (*at == '\r' && at + 1 < end && at[1] == '\n'))
        at += 1 + (*at == '\r');
    else
        for (;;) {
            Span *span = add_span(self);
            if (span == NULL)
                return -1;
            if (at < end && *at == (char)self->quote && self->quote >= 0) {
                at++;
                if (!quoted_cell(self, &at, end, span, &lines) ||
                    (at < end && !(self->kinds[(unsigned char)*at] & (DELIMITER | LINE | RETURN))))
                    return 0; /* it is not closed, or text follows */
            }
            else {
                const char *from = at;
                unsigned char kind = 0, seen = 0;
                while (at < end && !((kind = self->kinds[(unsigned char)*at]) & (DELIMITER | LINE | RETURN))) {
                    seen |= kind;
                    at++;
                }
                *span = (Span){.at = from, .length = at - from, .wide = (seen & WIDE) != 0};
            }
            if (span->wide && !is_utf8(span->at, span->length))
                return 0;
            if (at == end)
                break;
            if (*at == self->delimiter) {
                at++;
                continue;
            }
            if (*at == '\r' && (at + 1 == end || *++at != '\n'))
                return 0;
            at++;
            break;
        }
    if (lines > 1 && (lines > MANY_LINES || at - start > LONG_RECORD))
        return 0;
    self->next = at - data;
    self->lines = lines;
    return 1;
}

static PyObject *
list_of_cells(Delimited *self)
{
    PyObject *cells = PyList_New(self->count);
    for (Py_ssize_t i = 0; cells != NULL && i < self->count; i++) {
        PyObject *cell = text_of_span(&self->spans[i]);
        if (cell == NULL)
            Py_CLEAR(cells);
        else
            PyList_SET_ITEM(cells, i, cell);
    }
    return cells;
}

/* The record at `at`. NULL without an exception at the end, or if it is not ordinary; with `cells` also if its number
 * of cells differs. */
static PyObject *
next_record(Delimited *self)
{
    PyObject *record = NULL;
    int found = find_cells(self);
    if (self->cells == NULL)
        record = found == 1 ? list_of_cells(self) : NULL;
    else {
        while (found == 1 && self->count == 0) { /* a blank line is not a row */
            self->at = self->next;
            found = find_cells(self);
        }
        if (found == 1 && self->count == columns_of(self->cells))
            record = members_of_spans(self->cells, self->spans, self->data);
    }
    if (record == NULL) {
        self->count = 0;
        return NULL;
    }
    self->at = self->next;
    self->rows++;
    return record;
}

/* The cells of the last record, as a list; empty once `at` was set. */
static PyObject *
last(Delimited *self, PyObject *Py_UNUSED(ignored))
{
    return self->at == self->next ? list_of_cells(self) : PyList_New(0);
}

static PyObject *
construct(PyTypeObject *type, PyObject *arguments, PyObject *named)
{
    PyObject *data, *cells = NULL;
    int delimiter, quote;
    static char *keywords[] = {"data", "delimiter", "quote", "cells", NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "O!ii|O!", keywords, &PyBytes_Type, &data, &delimiter, &quote,
                                     &Cells_Type, &cells))
        return NULL;
    if (delimiter < 0 || delimiter > 127 || delimiter == '\n' || delimiter == '\r' || delimiter == quote ||
        quote < -1 || quote > 127 || quote == '\n' || quote == '\r')
        return PyErr_Format(PyExc_ValueError, "a delimiter and a quote must be ASCII, and differ");
    Delimited *self = (Delimited *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->data = Py_NewRef(data);
    self->cells = Py_XNewRef(cells);
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
    Py_XDECREF(self->cells);
    PyMem_Free(self->spans);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef methods[] = {
    {"last", (PyCFunction)last, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef attributes[] = {
    {"at", T_PYSSIZET, offsetof(Delimited, at), 0, NULL},
    {"lines", T_PYSSIZET, offsetof(Delimited, lines), READONLY, NULL},
    {"rows", T_PYSSIZET, offsetof(Delimited, rows), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
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
    .tp_methods = methods,
    .tp_members = attributes,
};
