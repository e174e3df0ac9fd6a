/* The rows of a table of columns: the texts of a column are those of Arrow's buffers, which are not copied; the values of
 * any other column are Python's. */

#include "native.h"

typedef struct {
    Name *name;
    PyObject *values;    /* a list with the values; NULL for texts */
    Py_buffer valid;     /* a bit for each text, without `obj` where all are there */
    Py_buffer offsets;   /* where each text starts and the last one ends: int64 where `wide`, else int32 */
    Py_buffer texts;
    Py_ssize_t first;    /* the number of the first row's text */
    int wide;
} Column;

typedef struct {
    PyObject_HEAD
    Column *columns;
    Py_ssize_t count, rows, next;
} Table;

static inline int64_t
offset_at(const Column *column, Py_ssize_t number)
{
    int64_t wide;
    int32_t narrow;
    if (column->wide) {
        memcpy(&wide, (const char *)column->offsets.buf + number * 8, 8);
        return wide;
    }
    memcpy(&narrow, (const char *)column->offsets.buf + number * 4, 4);
    return narrow;
}

/* Add the text of a row, unless it is null. */
static int
add_text(const Column *column, Py_ssize_t row, Members *members)
{
    Py_ssize_t number = column->first + row;
    if (column->valid.obj != NULL && !(((const unsigned char *)column->valid.buf)[number >> 3] >> (number & 7) & 1))
        return 0;
    int64_t start = offset_at(column, number), end = offset_at(column, number + 1);
    if (start < 0 || end < start || end > column->texts.len) {
        PyErr_SetString(PyExc_ValueError, "a text is outside of its buffer");
        return -1;
    }
    Member *member = members_add(members);
    if (member == NULL)
        return -1;
    *member = (Member){
        .name = column->name,
        .cell = start == end ? "" : (const char *)column->texts.buf + start,
        .length = (Py_ssize_t)(end - start),
    };
    return 0;
}

static int
add_value(const Column *column, Py_ssize_t row, Members *members)
{
    if (row >= PyList_GET_SIZE(column->values)) { /* a list that was changed */
        PyErr_SetString(PyExc_ValueError, "a column has fewer values than there are rows");
        return -1;
    }
    PyObject *value = PyList_GET_ITEM(column->values, row);
    if (value == Py_None)
        return 0;
    Member *member = members_add(members);
    if (member == NULL)
        return -1;
    *member = (Member){.name = column->name};
    return members_put(member, value);
}

static PyObject *
next_row(Table *self)
{
    if (self->next >= self->rows)
        return NULL;
    Py_ssize_t row = self->next++;
    Members *members = members_new((PyObject *)self);
    for (const Column *column = self->columns, *end = column + self->count; members != NULL && column < end; column++)
        if ((column->values != NULL ? add_value : add_text)(column, row, members) < 0)
            Py_CLEAR(members);
    return (PyObject *)members;
}

/* Take the texts of a column: (bits or None, offsets, texts or None, first, wide). */
static int
take_texts(Column *column, PyObject *given, Py_ssize_t rows)
{
    PyObject *valid, *offsets, *texts;
    if (!PyArg_ParseTuple(given, "OOOnp", &valid, &offsets, &texts, &column->first, &column->wide))
        return -1;
    if ((valid != Py_None && PyObject_GetBuffer(valid, &column->valid, PyBUF_SIMPLE) < 0) ||
        PyObject_GetBuffer(offsets, &column->offsets, PyBUF_SIMPLE) < 0 ||
        (texts != Py_None && PyObject_GetBuffer(texts, &column->texts, PyBUF_SIMPLE) < 0))
        return -1;
    Py_ssize_t most = (column->offsets.len / (column->wide ? 8 : 4)) - 1; /* the texts that there are offsets for */
    if (valid != Py_None && column->valid.len < most / 8 + 1)
        most = column->valid.len * 8;
    if (column->first < 0 || column->first > most || rows > most - column->first) {
        PyErr_SetString(PyExc_ValueError, "a column has fewer texts than there are rows");
        return -1;
    }
    return 0;
}

static PyObject *
construct(PyTypeObject *type, PyObject *arguments, PyObject *named)
{
    PyObject *names, *columns;
    Py_ssize_t rows;
    static char *keywords[] = {"names", "columns", "rows", NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "O!O!n", keywords, &PyTuple_Type, &names, &PyTuple_Type,
                                     &columns, &rows))
        return NULL;
    if (PyTuple_GET_SIZE(names) != PyTuple_GET_SIZE(columns))
        return PyErr_Format(PyExc_ValueError, "a name for each column was expected");
    Table *self = (Table *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->rows = rows;
    self->columns = PyMem_Calloc((size_t)PyTuple_GET_SIZE(names) + 1, sizeof(Column));
    if (self->columns == NULL)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; !PyErr_Occurred() && i < PyTuple_GET_SIZE(names); i++) {
        Column *column = &self->columns[self->count++];
        PyObject *given = PyTuple_GET_ITEM(columns, i);
        if ((column->name = name_of(PyTuple_GET_ITEM(names, i))) == NULL)
            break;
        if (PyList_CheckExact(given))
            column->values = Py_NewRef(given);
        else if (PyTuple_CheckExact(given))
            (void)take_texts(column, given, rows);
        else
            PyErr_SetString(PyExc_TypeError, "a column is a list or a tuple");
    }
    if (PyErr_Occurred())
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void
dealloc(Table *self)
{
    for (Py_ssize_t i = 0; i < self->count; i++) {
        Column *column = &self->columns[i];
        Py_XDECREF(column->values);
        PyBuffer_Release(&column->valid); /* nothing happens for one that was not taken */
        PyBuffer_Release(&column->offsets);
        PyBuffer_Release(&column->texts);
    }
    PyMem_Free(self->columns);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

PyTypeObject Table_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pipeline.native._native.Table",
    .tp_basicsize = sizeof(Table),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = construct,
    .tp_dealloc = (destructor)dealloc,
    .tp_iter = PyObject_SelfIter,
    .tp_iternext = (iternextfunc)next_row,
};
