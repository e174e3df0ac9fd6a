/* Reads JSON lines: each plain line as its Members, every other line as its bytes, for Python to read. Opener reads a
 * single object that a row has as a value or as a string.
 *
 * A line is plain if it is one JSON object in valid UTF-8, strictly spelled, without duplicate names, half surrogate
 * pairs, deep nesting or numbers with many digits: nothing that Python would reject or warn about. The one exception is
 * integers beyond 2^53: when observing, such a line is returned together with its Members. */

#include "native.h"

#define MAX_DEPTH 64
#define MAX_OPENED 4
#define EXPONENT_DIGITS 3 /* with this many digits in its exponent, a number may be beyond the range of a double, */
#define MANY_DIGITS 200   /* or with this many digits before it: pipeline/json_limits.py decides */
#define SAFE_INTEGER 9007199254740992u
#define PREDICTED_NAMES 256

/* What is remembered while reading the objects of one export. */
typedef struct {
    PyObject *data; /* contains the text that is read; owned */
    Py_ssize_t opened_count;
    Name *opened[MAX_OPENED];
    uint64_t objects; /* read so far: the stamp of an object's names, which finds duplicate names */
    /* The names of the previous object, by level and position: rows of one export mostly have the same names. */
    Spelling *previous[2][PREDICTED_NAMES];
} Reading;

typedef struct {
    PyObject_HEAD
    Reading reading;
    const char *at;
    const char *end;
    int observe;
} Lines;

typedef struct {
    const char *at;
    const char *end;
    int unsafe; /* there was an integer beyond 2^53 */
} Cursor;

/* --- the syntax of values: each function moves the cursor past the value; 0 if it is not plain -------------- */

static inline void
skip_space(Cursor *cursor)
{
    while (cursor->at < cursor->end && (*cursor->at == ' ' || *cursor->at == '\t' || *cursor->at == '\r'))
        cursor->at++;
}

static int
hex4(const char *at)
{
    int unit = 0;
    for (int i = 0; i < 4; i++) {
        if (!Py_ISXDIGIT(at[i]))
            return -1;
        unit = unit * 16 + (at[i] & 15) + (at[i] > '9') * 9;
    }
    return unit;
}

static int
skip_escape(Cursor *cursor)
{
    const char *at = cursor->at + 1;
    if (at >= cursor->end)
        return 0;
    if (*at != 'u') {
        cursor->at = at + 1;
        return strchr("\"\\/bfnrt", *at) != NULL && *at != 0;
    }
    if (cursor->end - at < 5)
        return 0;
    int unit = hex4(at + 1);
    cursor->at = at + 5;
    if (unit < 0xD800 || unit > 0xDFFF)
        return unit >= 0;
    if (unit > 0xDBFF || cursor->end - cursor->at < 6 || cursor->at[0] != '\\' || cursor->at[1] != 'u')
        return 0;
    unit = hex4(cursor->at + 2);
    cursor->at += 6;
    return unit >= 0xDC00 && unit <= 0xDFFF;
}

static int
skip_wide(Cursor *cursor) /* one character of UTF-8 beyond ASCII */
{
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    const unsigned char *at = (const unsigned char *)cursor->at;
    int more = *at >= 0xF0 ? 3 : *at >= 0xE0 ? 2 : 1;
    uint32_t character = *at & (0x3F >> more);
    if (*at < 0xC2 || *at > 0xF4 || cursor->end - cursor->at <= more)
        return 0;
    for (int i = 1; i <= more; i++) {
        if ((at[i] & 0xC0) != 0x80)
            return 0;
        character = character << 6 | (at[i] & 0x3F);
    }
    if (character < least[more] || (character >= 0xD800 && character <= 0xDFFF) || character > 0x10FFFF)
        return 0;
    cursor->at += more + 1;
    return 1;
}

int
is_utf8(const char *at, Py_ssize_t length)
{
    Cursor cursor = {at, at + length, 0};
    while (cursor.at < cursor.end)
        if ((unsigned char)*cursor.at < 0x80)
            cursor.at++;
        else if (!skip_wide(&cursor))
            return 0;
    return 1;
}

#define EACH(byte) (0x0101010101010101u * (uint8_t)(byte))
#define ZERO_BYTES(x) (((x) - EACH(1)) & ~(x) & EACH(0x80))

static int
skip_string(Cursor *cursor) /* at the quote */
{
    cursor->at++;
    for (;;) {
        /* Eight bytes at a time while none is a quote, a backslash, a control character or beyond ASCII. */
        while (cursor->end - cursor->at >= 8) {
            uint64_t eight;
            memcpy(&eight, cursor->at, 8);
            uint64_t special = ZERO_BYTES(eight ^ EACH('"')) | ZERO_BYTES(eight ^ EACH('\\')) |
                           ((eight - EACH(0x20)) & ~eight & EACH(0x80)) | (eight & EACH(0x80));
            if (special)
                break;
            cursor->at += 8;
        }
        while (cursor->at < cursor->end && *cursor->at != '"' && *cursor->at != '\\' &&
               (unsigned char)*cursor->at >= 0x20 && (unsigned char)*cursor->at < 0x80)
            cursor->at++;
        if (cursor->at >= cursor->end)
            return 0;
        if (*cursor->at == '"') {
            cursor->at++;
            return 1;
        }
        if (*cursor->at == '\\' ? !skip_escape(cursor) : !skip_wide(cursor)) /* a control character is not wide */
            return 0;
    }
}

static inline Py_ssize_t
skip_digits(Cursor *cursor)
{
    const char *from = cursor->at;
    while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9')
        cursor->at++;
    return cursor->at - from;
}

static int
skip_number(Cursor *cursor)
{
    if (*cursor->at == '-')
        cursor->at++;
    const char *digits = cursor->at;
    Py_ssize_t count = skip_digits(cursor);
    if (count == 0 || (count > 1 && *digits == '0') || count >= MANY_DIGITS)
        return 0;
    int whole = 1;
    if (cursor->at < cursor->end && *cursor->at == '.') {
        cursor->at++;
        whole = 0;
        if (skip_digits(cursor) == 0)
            return 0;
    }
    if (cursor->at < cursor->end && (*cursor->at | 32) == 'e') {
        cursor->at++;
        whole = 0;
        if (cursor->at < cursor->end && (*cursor->at == '+' || *cursor->at == '-'))
            cursor->at++;
        Py_ssize_t power = skip_digits(cursor);
        if (power == 0 || power >= EXPONENT_DIGITS)
            return 0;
    }
    if (whole && count >= 16) {
        uint64_t number = 0;
        for (Py_ssize_t i = 0; i < 16; i++)
            number = number * 10 + (uint64_t)(digits[i] - '0');
        if (count > 16 || number > SAFE_INTEGER)
            cursor->unsafe = 1;
    }
    return 1;
}

static int
skip_word(Cursor *cursor, const char *word, Py_ssize_t length)
{
    if (cursor->end - cursor->at < length || memcmp(cursor->at, word, (size_t)length) != 0)
        return 0;
    cursor->at += length;
    return 1;
}

static inline int
skip_byte(Cursor *cursor, char byte)
{
    if (cursor->at >= cursor->end || *cursor->at != byte)
        return 0;
    cursor->at++;
    return 1;
}

static int
skip_colon(Cursor *cursor) /* with the space around it */
{
    skip_space(cursor);
    if (!skip_byte(cursor, ':'))
        return 0;
    skip_space(cursor);
    return 1;
}

/* After an item: 1 after a comma, 0 after the closing bracket, -1 for anything else. */
static int
skip_comma(Cursor *cursor, char close)
{
    skip_space(cursor);
    if (skip_byte(cursor, close))
        return 0;
    if (!skip_byte(cursor, ','))
        return -1;
    skip_space(cursor);
    return 1;
}

/* One value; `depth` is 1 for a member of the row itself. */
static int
skip_value(Cursor *cursor, int depth)
{
    if (cursor->at >= cursor->end)
        return 0;
    switch (*cursor->at) {
    case '"':
        return skip_string(cursor);
    case 't':
        return skip_word(cursor, "true", 4);
    case 'f':
        return skip_word(cursor, "false", 5);
    case 'n':
        return skip_word(cursor, "null", 4);
    case '{':
    case '[':
        break;
    default:
        return skip_number(cursor);
    }
    char close = *cursor->at == '{' ? '}' : ']';
    if (depth >= MAX_DEPTH)
        return 0;
    cursor->at++;
    skip_space(cursor);
    if (skip_byte(cursor, close))
        return 1;
    for (;;) {
        if (close == '}' &&
            (cursor->at >= cursor->end || *cursor->at != '"' || !skip_string(cursor) || !skip_colon(cursor)))
            return 0;
        if (!skip_value(cursor, depth + 1))
            return 0;
        int next = skip_comma(cursor, close);
        if (next <= 0)
            return next == 0;
    }
}

/* --- objects read as Members ----------------------------------------------------------------------------- */

/* The name at the cursor's quote; NULL if it is not plain; with an exception if memory runs out. */
static Spelling *
read_name(Reading *self, Cursor *cursor, int level, Py_ssize_t position)
{
    if (position < PREDICTED_NAMES) {
        Spelling *predicted = self->previous[level][position];
        if (predicted != NULL && cursor->end - cursor->at > (Py_ssize_t)predicted->length + 1 &&
            cursor->at[predicted->length + 1] == '"' &&
            memcmp(cursor->at + 1, predicted->bytes, predicted->length) == 0) {
            cursor->at += predicted->length + 2;
            return predicted;
        }
    }
    const char *from = cursor->at + 1;
    if (!skip_string(cursor))
        return NULL;
    Spelling *spelling = spelling_of(from, cursor->at - 1 - from);
    if (spelling != NULL && position < PREDICTED_NAMES)
        self->previous[level][position] = spelling;
    return spelling;
}

static int
is_opened(const Reading *self, const Name *name)
{
    for (Py_ssize_t i = 0; i < self->opened_count; i++)
        if (self->opened[i] == name)
            return 1;
    return 0;
}

/* Fill `into` with the object at the cursor. 1; 0 if it is not plain; -1 with an exception. Level 0 is the row. */
static int
read_object(Reading *self, Cursor *cursor, Members *into, int level)
{
    uint64_t stamp = ++self->objects;
    cursor->at++;
    skip_space(cursor);
    if (skip_byte(cursor, '}'))
        return 1;
    for (Py_ssize_t position = 0;; position++) {
        if (cursor->at >= cursor->end || *cursor->at != '"')
            return 0;
        Spelling *spelling = read_name(self, cursor, level, position);
        if (spelling == NULL)
            return PyErr_Occurred() ? -1 : 0;
        Name *name = spelling->name;
        if (name->stamps[level] == stamp)
            return 0;
        name->stamps[level] = stamp;
        if (!skip_colon(cursor))
            return 0;
        Member *member = members_add(into);
        if (member == NULL)
            return -1;
        *member = (Member){.name = name, .at = cursor->at};
        if (level == 0 && cursor->at < cursor->end && *cursor->at == '{' && is_opened(self, name)) {
            Members *inner = members_new(self->data);
            if (inner == NULL)
                return -1;
            member->value = (PyObject *)inner;
            member->at = NULL;
            int plain = read_object(self, cursor, inner, 1);
            if (plain != 1)
                return plain;
        }
        else {
            if (!skip_value(cursor, level + 1))
                return 0;
            member->length = cursor->at - member->at;
        }
        int next = skip_comma(cursor, '}');
        if (next <= 0)
            return next == 0;
    }
}

/* --- the iterator ---------------------------------------------------------------------------------------- */

static PyObject *
next_line(Lines *self)
{
    if (self->at >= self->end)
        return NULL;
    const char *line = self->at;
    const char *newline = memchr(line, '\n', (size_t)(self->end - line));
    const char *end = newline != NULL ? newline : self->end;
    self->at = newline != NULL ? newline + 1 : self->end;
    Cursor cursor = {line, end, 0};
    skip_space(&cursor);
    if (cursor.at < end && *cursor.at == '{') {
        Members *row = members_new(self->reading.data);
        if (row == NULL)
            return NULL;
        int plain = read_object(&self->reading, &cursor, row, 0);
        skip_space(&cursor);
        if (plain == 1 && cursor.at == end) {
            if (!self->observe || !cursor.unsafe)
                return (PyObject *)row;
            /* The caller warns about the integers of the line. */
            return Py_BuildValue("(y#N)", line, (Py_ssize_t)(end - line), (PyObject *)row);
        }
        Py_DECREF(row);
        if (plain < 0)
            return NULL;
    }
    return PyBytes_FromStringAndSize(line, self->at - line);
}

/* No two readers share a stamp. */
static uint64_t
first_stamp(void)
{
    static uint64_t objects;
    return objects += (uint64_t)1 << 40;
}

static PyObject *
construct(PyTypeObject *type, PyObject *arguments, PyObject *named)
{
    PyObject *data, *opens;
    int observe;
    static char *keywords[] = {"data", "opens", "observe", NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "O!O!p", keywords, &PyBytes_Type, &data, &PyTuple_Type, &opens,
                                     &observe))
        return NULL;
    if (PyTuple_GET_SIZE(opens) > MAX_OPENED)
        return PyErr_Format(PyExc_ValueError, "at most %d members can be opened", MAX_OPENED);
    Lines *self = (Lines *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(opens); i++) {
        if ((self->reading.opened[i] = name_of(PyTuple_GET_ITEM(opens, i))) == NULL) {
            Py_DECREF(self);
            return NULL;
        }
        self->reading.opened_count++;
    }
    self->reading.data = Py_NewRef(data);
    self->at = PyBytes_AS_STRING(data);
    self->end = self->at + PyBytes_GET_SIZE(data);
    self->observe = observe;
    self->reading.objects = first_stamp();
    return (PyObject *)self;
}

static void
dealloc(Lines *self)
{
    Py_CLEAR(self->reading.data);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

PyTypeObject Lines_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pipeline.native._native.Lines",
    .tp_basicsize = sizeof(Lines),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = construct,
    .tp_dealloc = (destructor)dealloc,
    .tp_iter = PyObject_SelfIter,
    .tp_iternext = (iternextfunc)next_line,
};

/* --- one object ------------------------------------------------------------------------------------------ */

typedef struct {
    PyObject_HEAD
    Reading reading;
    PyObject *header; /* a Header, for dicts */
    int again;        /* whether the last Raw and its Members are remembered: a row's items share values */
    PyObject *latest, *latest_object;
    vectorcallfunc call;
} Opener;

/* The members of an object in some text; `owner` keeps it alive. NULL without an exception if it is not plain. */
static PyObject *
open_text(Opener *self, PyObject *owner, const char *at, Py_ssize_t length)
{
    Cursor cursor = {at, at + length, 0};
    skip_space(&cursor);
    if (cursor.at == cursor.end || *cursor.at != '{')
        return NULL;
    Members *object = members_new(owner);
    if (object == NULL)
        return NULL;
    int plain = read_object(&self->reading, &cursor, object, 1);
    skip_space(&cursor);
    if (plain == 1 && cursor.at == cursor.end)
        return (PyObject *)object;
    Py_DECREF(object);
    return NULL;
}

static PyObject *
open_characters(Opener *self, PyObject *text)
{
    Py_ssize_t length = PyUnicode_GET_LENGTH(text);
    if (length == 0)
        return (PyObject *)members_new(NULL);
    PyObject *bytes = PyUnicode_AsUTF8String(text);
    if (bytes == NULL) {
        PyErr_Clear(); /* half of a surrogate pair */
        return NULL;
    }
    PyObject *object = open_text(self, bytes, PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes));
    Py_DECREF(bytes);
    return object;
}

/* The Members of a member that is an object, or a string with the JSON of one; `owner` has the text of a member
 * without a value. NULL without an exception if it is not plain. */
static PyObject *
open_member(PyObject *opener, const Member *member, PyObject *owner)
{
    Opener *self = (Opener *)opener;
    PyObject *value = member->value;
    if (member_is_null(member) || value == Py_None)
        return (PyObject *)members_new(NULL);
    if (member->cell != NULL)
        return member->length ? open_text(self, owner, member->cell, member->length) : (PyObject *)members_new(NULL);
    if (member->at != NULL && member->length > 0 && *member->at == '"') {
        PyObject *text = member_text(member);
        PyObject *object = text == NULL ? NULL : open_characters(self, text);
        Py_XDECREF(text);
        if (text == NULL)
            PyErr_Clear(); /* Python reports what is wrong with it */
        return object;
    }
    if (member->at != NULL && (value == NULL || !self->again))
        return open_text(self, value != NULL ? value : owner, member->at, member->length);
    if (member->at != NULL) {
        if (value != self->latest) {
            PyObject *object = open_text(self, value, member->at, member->length);
            if (object == NULL)
                return NULL;
            Py_XSETREF(self->latest_object, object);
            Py_XSETREF(self->latest, Py_NewRef(value));
        }
        return Py_NewRef(self->latest_object);
    }
    if (value == NULL)
        return NULL;
    if (Members_Check(value))
        return Py_NewRef(value);
    if (PyUnicode_CheckExact(value))
        return open_characters(self, value);
    if (!PyDict_CheckExact(value))
        return NULL;
    PyObject *object = PyObject_CallOneArg(self->header, value);
    if (object != NULL && !Members_Check(object))
        Py_CLEAR(object); /* it has too many names */
    return object;
}

/* opener(value) */
static PyObject *
open_value(PyObject *callable, PyObject *const *arguments, size_t flags, PyObject *named)
{
    if (PyVectorcall_NARGS(flags) != 1 || named != NULL)
        return PyErr_Format(PyExc_TypeError, "one argument was expected");
    Member member;
    if (member_of_raw(&member, arguments[0]) < 0)
        return NULL;
    PyObject *object = open_member(callable, &member, NULL);
    if (object == NULL && !PyErr_Occurred())
        Py_RETURN_NONE;
    return object;
}

static PyObject *
construct_opener(PyTypeObject *type, PyObject *arguments, PyObject *named)
{
    int again = 0;
    static char *keywords[] = {"again", NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "|p", keywords, &again))
        return NULL;
    Opener *self = (Opener *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->call = open_value;
    self->again = again;
    self->reading.objects = first_stamp();
    if ((self->header = PyObject_CallNoArgs((PyObject *)&Header_Type)) == NULL)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void
dealloc_opener(Opener *self)
{
    Py_CLEAR(self->header);
    Py_CLEAR(self->latest);
    Py_CLEAR(self->latest_object);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

PyTypeObject Opener_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pipeline.native._native.Opener",
    .tp_basicsize = sizeof(Opener),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Opener, call),
    .tp_call = PyVectorcall_Call,
    .tp_new = construct_opener,
    .tp_dealloc = (destructor)dealloc_opener,
};
