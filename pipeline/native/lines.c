/* Reads JSON lines: each usual line as its Members, each unusual one as its bytes, for Python to judge.
 *
 * A line is usual when it is one JSON object in valid UTF-8, strictly spelled, with no name twice, no half of a
 * surrogate pair, no deep nesting and no number of many digits: nothing that Python would reject or warn about. So what is
 * read here needs no second look, but for integers beyond 2^53: when observing, such a line comes with its Members. */

#include "native.h"

#define MOST_DEPTH 64
#define MOST_OPENED 4
#define EXPONENT_DIGITS 3 /* with an exponent of so many digits a number may be beyond the range of a double, */
#define MANY_DIGITS 200   /* or with so many digits before it: pipeline/json_limits.py decides */
#define SAFE_INTEGER 9007199254740992u
#define FORETOLD 256

typedef struct {
    PyObject_HEAD
    PyObject *data;
    const char *at;
    const char *end;
    int observe;
    Py_ssize_t opened_count;
    Name *opened[MOST_OPENED];
    uint64_t objects;             /* read so far: stamps names to find those that stand twice */
    Spelling *before[2][FORETOLD]; /* the names of the object before, by level and place: nearly always they are the same */
} Lines;

typedef struct {
    const char *at;
    const char *end;
    int unsafe; /* an integer beyond 2^53 was passed */
} Cursor;

/* --- what a value is made of: each moves the cursor behind it; 0 when it is unusual ---------------------- */

static inline void
skip_space(Cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\r'))
        c->at++;
}

static int
hex4(const char *at)
{
    int found = 0;
    for (int i = 0; i < 4; i++) {
        char digit = at[i];
        found = found * 16;
        if (digit >= '0' && digit <= '9')
            found += digit - '0';
        else if ((digit | 32) >= 'a' && (digit | 32) <= 'f')
            found += (digit | 32) - 'a' + 10;
        else
            return -1;
    }
    return found;
}

static int
skip_escape(Cursor *c)
{
    const char *at = c->at + 1;
    if (at >= c->end)
        return 0;
    if (*at != 'u') {
        c->at = at + 1;
        return strchr("\"\\/bfnrt", *at) != NULL && *at != 0;
    }
    if (c->end - at < 5)
        return 0;
    int unit = hex4(at + 1);
    c->at = at + 5;
    if (unit < 0xD800 || unit > 0xDFFF)
        return unit >= 0;
    if (unit > 0xDBFF || c->end - c->at < 6 || c->at[0] != '\\' || c->at[1] != 'u')
        return 0;
    unit = hex4(c->at + 2);
    c->at += 6;
    return unit >= 0xDC00 && unit <= 0xDFFF;
}

static int
skip_wide(Cursor *c) /* one character of UTF-8 beyond ASCII */
{
    const unsigned char *at = (const unsigned char *)c->at;
    Py_ssize_t left = c->end - c->at;
    unsigned char low = 0x80, high = 0xBF;
    int more;
    if (at[0] >= 0xC2 && at[0] <= 0xDF)
        more = 1;
    else if (at[0] >= 0xE0 && at[0] <= 0xEF) {
        more = 2;
        if (at[0] == 0xE0)
            low = 0xA0;
        if (at[0] == 0xED)
            high = 0x9F;
    }
    else if (at[0] >= 0xF0 && at[0] <= 0xF4) {
        more = 3;
        if (at[0] == 0xF0)
            low = 0x90;
        if (at[0] == 0xF4)
            high = 0x8F;
    }
    else
        return 0;
    if (left <= more || at[1] < low || at[1] > high)
        return 0;
    for (int i = 2; i <= more; i++)
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    c->at += more + 1;
    return 1;
}

#define EACH(byte) (0x0101010101010101u * (uint8_t)(byte))
#define ZERO_BYTES(x) (((x) - EACH(1)) & ~(x) & EACH(0x80))

static int
skip_string(Cursor *c) /* at the quote */
{
    c->at++;
    for (;;) {
        /* Eight bytes at a time as long as none is a quote, a backslash, a control character or beyond ASCII. */
        while (c->end - c->at >= 8) {
            uint64_t eight;
            memcpy(&eight, c->at, 8);
            uint64_t odd = ZERO_BYTES(eight ^ EACH('"')) | ZERO_BYTES(eight ^ EACH('\\')) |
                           ((eight - EACH(0x20)) & ~eight & EACH(0x80)) | (eight & EACH(0x80));
            if (odd)
                break;
            c->at += 8;
        }
        while (c->at < c->end && *c->at != '"' && *c->at != '\\' && (unsigned char)*c->at >= 0x20 &&
               (unsigned char)*c->at < 0x80)
            c->at++;
        if (c->at >= c->end)
            return 0;
        if (*c->at == '"') {
            c->at++;
            return 1;
        }
        if (*c->at == '\\' ? !skip_escape(c) : !skip_wide(c)) /* a control character is no wide one */
            return 0;
    }
}

static inline Py_ssize_t
skip_digits(Cursor *c)
{
    const char *from = c->at;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9')
        c->at++;
    return c->at - from;
}

static int
skip_number(Cursor *c)
{
    if (*c->at == '-')
        c->at++;
    const char *digits = c->at;
    Py_ssize_t count = skip_digits(c);
    if (count == 0 || (count > 1 && *digits == '0') || count >= MANY_DIGITS)
        return 0;
    int whole = 1;
    if (c->at < c->end && *c->at == '.') {
        c->at++;
        whole = 0;
        if (skip_digits(c) == 0)
            return 0;
    }
    if (c->at < c->end && (*c->at | 32) == 'e') {
        c->at++;
        whole = 0;
        if (c->at < c->end && (*c->at == '+' || *c->at == '-'))
            c->at++;
        Py_ssize_t power = skip_digits(c);
        if (power == 0 || power >= EXPONENT_DIGITS)
            return 0;
    }
    if (whole && count >= 16) {
        uint64_t found = 0;
        for (Py_ssize_t i = 0; i < 16; i++)
            found = found * 10 + (uint64_t)(digits[i] - '0');
        if (count > 16 || found > SAFE_INTEGER)
            c->unsafe = 1;
    }
    return 1;
}

static int
skip_word(Cursor *c, const char *word, Py_ssize_t length)
{
    if (c->end - c->at < length || memcmp(c->at, word, (size_t)length) != 0)
        return 0;
    c->at += length;
    return 1;
}

/* One value; `depth` is how deep it stands, 1 for a member of the row itself. */
static int
skip_value(Cursor *c, int depth)
{
    if (c->at >= c->end)
        return 0;
    switch (*c->at) {
    case '"':
        return skip_string(c);
    case 't':
        return skip_word(c, "true", 4);
    case 'f':
        return skip_word(c, "false", 5);
    case 'n':
        return skip_word(c, "null", 4);
    case '{':
    case '[':
        break;
    default:
        return skip_number(c);
    }
    char close = *c->at == '{' ? '}' : ']';
    if (depth >= MOST_DEPTH)
        return 0;
    c->at++;
    skip_space(c);
    if (c->at < c->end && *c->at == close) {
        c->at++;
        return 1;
    }
    for (;;) {
        if (close == '}') {
            if (c->at >= c->end || *c->at != '"' || !skip_string(c))
                return 0;
            skip_space(c);
            if (c->at >= c->end || *c->at != ':')
                return 0;
            c->at++;
            skip_space(c);
        }
        if (!skip_value(c, depth + 1))
            return 0;
        skip_space(c);
        if (c->at >= c->end)
            return 0;
        if (*c->at == close) {
            c->at++;
            return 1;
        }
        if (*c->at != ',')
            return 0;
        c->at++;
        skip_space(c);
    }
}

/* --- objects whose members are told apart ---------------------------------------------------------------- */

/* The name at the cursor's quote; NULL when it is unusual, with an exception when memory lacks. */
static Spelling *
read_name(Lines *self, Cursor *c, int level, Py_ssize_t place)
{
    if (place < FORETOLD) {
        Spelling *likely = self->before[level][place];
        if (likely != NULL && c->end - c->at > (Py_ssize_t)likely->length + 1 &&
            c->at[likely->length + 1] == '"' && memcmp(c->at + 1, likely->bytes, likely->length) == 0) {
            c->at += likely->length + 2;
            return likely;
        }
    }
    const char *from = c->at + 1;
    if (!skip_string(c))
        return NULL;
    Spelling *found = spelling_of(from, c->at - 1 - from);
    if (found != NULL && place < FORETOLD)
        self->before[level][place] = found;
    return found;
}

static int
is_opened(const Lines *self, const Name *name)
{
    for (Py_ssize_t i = 0; i < self->opened_count; i++)
        if (self->opened[i] == name)
            return 1;
    return 0;
}

/* Fill `into` with the object at the cursor. 1; 0 when it is unusual; -1 with an exception. Level 0 is the row. */
static int
read_object(Lines *self, Cursor *c, Members *into, int level)
{
    uint64_t stamp = ++self->objects;
    c->at++;
    skip_space(c);
    if (c->at < c->end && *c->at == '}') {
        c->at++;
        return 1;
    }
    for (Py_ssize_t place = 0;; place++) {
        if (c->at >= c->end || *c->at != '"')
            return 0;
        Spelling *spelling = read_name(self, c, level, place);
        if (spelling == NULL)
            return PyErr_Occurred() ? -1 : 0;
        Name *name = spelling->name;
        if (name->seen[level] == stamp)
            return 0;
        name->seen[level] = stamp;
        skip_space(c);
        if (c->at >= c->end || *c->at != ':')
            return 0;
        c->at++;
        skip_space(c);
        Member *one = members_add(into);
        if (one == NULL)
            return -1;
        *one = (Member){name, NULL, c->at, 0};
        if (level == 0 && c->at < c->end && *c->at == '{' && is_opened(self, name)) {
            Members *inner = members_new(self->data);
            if (inner == NULL)
                return -1;
            one->value = (PyObject *)inner;
            one->at = NULL;
            int usual = read_object(self, c, inner, 1);
            if (usual != 1)
                return usual;
        }
        else {
            if (!skip_value(c, level + 1))
                return 0;
            one->length = c->at - one->at;
        }
        skip_space(c);
        if (c->at >= c->end)
            return 0;
        if (*c->at == '}') {
            c->at++;
            return 1;
        }
        if (*c->at != ',')
            return 0;
        c->at++;
        skip_space(c);
    }
}

/* --- the iterator ---------------------------------------------------------------------------------------- */

/* (the line, its Members): the caller warns about its integers. */
static PyObject *
beside_line(Members *row, const char *line, const char *end)
{
    return Py_BuildValue("(y#N)", line, (Py_ssize_t)(end - line), (PyObject *)row);
}

static PyObject *
next(Lines *self)
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
        Members *row = members_new(self->data);
        if (row == NULL)
            return NULL;
        int usual = read_object(self, &cursor, row, 0);
        skip_space(&cursor);
        if (usual == 1 && cursor.at == end)
            return self->observe && cursor.unsafe ? beside_line(row, line, end) : (PyObject *)row;
        Py_DECREF(row);
        if (usual < 0)
            return NULL;
    }
    return PyBytes_FromStringAndSize(line, self->at - line);
}

static PyObject *
construct(PyTypeObject *type, PyObject *given, PyObject *named)
{
    PyObject *data, *opens;
    int observe;
    static char *words[] = {"data", "opens", "observe", NULL};
    if (!PyArg_ParseTupleAndKeywords(given, named, "O!O!p", words, &PyBytes_Type, &data, &PyTuple_Type, &opens, &observe))
        return NULL;
    if (PyTuple_GET_SIZE(opens) > MOST_OPENED)
        return PyErr_Format(PyExc_ValueError, "at most %d members can be opened", MOST_OPENED);
    Lines *self = (Lines *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(opens); i++) {
        if ((self->opened[i] = name_of(PyTuple_GET_ITEM(opens, i))) == NULL) {
            Py_DECREF(self);
            return NULL;
        }
        self->opened_count++;
    }
    self->data = Py_NewRef(data);
    self->at = PyBytes_AS_STRING(data);
    self->end = self->at + PyBytes_GET_SIZE(data);
    self->observe = observe;
    static uint64_t objects; /* stamps are never used twice, whoever reads */
    self->objects = objects += (uint64_t)1 << 40;
    return (PyObject *)self;
}

static void
dealloc(Lines *self)
{
    Py_CLEAR(self->data);
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
    .tp_iternext = (iternextfunc)next,
};
