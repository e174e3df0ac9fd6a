/* What the files in this folder share: the table of names, and the members of one JSON object.
 *
 * Rules for every entry:
 *   - The GIL is held throughout. The tables of names and spellings are static and live as long as the process.
 *   - A PyObject * parameter is borrowed; one that is stored gets its own reference. A returned PyObject * is a new
 *     reference unless the comment states that it is borrowed.
 *   - A function that fails returns NULL or -1 with an exception set, unless its comment states otherwise.
 *   - Text of a row (`at`, `length`) is not terminated and belongs to the bytes object `owner`.
 *
 * Limits: 64 levels of nesting and 4 opened members per line (lines.c); names of 1,000 bytes, with 16,384 spellings
 * (names.c); 16,384 names while dicts are read (header.c); 256 words of 63 bytes (texts.c); 2^30 renames, and 1,024
 * spread members (renames.c); 16 objects of cells (cells.c); for a record of several lines, 10,000 lines and 1 MiB
 * (delimited.c). Python reads lines, rows, blocks, strings and spellings beyond a limit; nothing is cut. */

#ifndef BACKCAST_NATIVE_H
#define BACKCAST_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* --- names (names.c) ----------------------------------------------------------------------------------- */

/* A member's name. Each string has one Name, never freed, so names are equal when their pointers are. */
typedef struct {
    PyObject *text;    /* str, interned; owned by the table */
    PyObject *written; /* bytes: a comma, the name as JSON, a colon; owned by the table */
    Py_ssize_t number; /* counted from 0, for Answers */
    uint64_t stamps[2]; /* the stamp of the last object with this name, by level (row, opened): finds duplicate keys */
} Name;

/* A name as spelled in a row: the bytes between its quotes, escapes and all. Owned by the table. */
typedef struct {
    uint32_t hash;
    uint32_t length;
    char *bytes;
    Name *name;
} Spelling;

int names_init(PyObject *encode, PyObject *decode_text); /* called once, when the module is loaded, like every _init */
/* The name of a str, added to the table if it is new. Fails for anything but a str, and if memory runs out. */
Name *name_of(PyObject *text);
/* The name of a str; NULL without an exception if the table has none. */
Name *names_find(PyObject *text);
#define MOST_NAMES (1 << 14) /* for names without a spelling: ever new names must not fill the memory */
/* Whether the table has fewer than `most` names. */
int names_room(Py_ssize_t most);
/* A frozenset of str, checked, so that membership tests run no Python code. Fails for anything else. */
PyObject *names_only(PyObject *set);
/* The spelling of some bytes of a row, added if it is new. NULL without an exception if it is too long, cannot be
 * decoded, or the table is full; NULL with an exception if memory runs out. */
Spelling *spelling_of(const char *bytes, Py_ssize_t length);

/* A number for each name that a caller computes once; 0 is "not yet". `answers` is allocated by answer_of and freed by
 * the caller (PyMem_Free). */
typedef struct {
    uint32_t *answers;
    Py_ssize_t room;
} Answers;

/* Where a name's answer is stored, valid until the next call. Fails if memory runs out. */
uint32_t *answer_of(Answers *answers, const Name *name);

/* --- members (members.c) ------------------------------------------------------------------------------- */

/* One member: JSON text in the row, or a value that Python put there, or both (then the text is inside the value), or a
 * cell: plain UTF-8 in the row, which Python sees as a str, created each time it is asked for. A removed member has no
 * name. */
typedef struct {
    Name *name;
    PyObject *value; /* owned, or NULL */
    const char *at;  /* inside `owner` or `value`, or NULL */
    Py_ssize_t length;
    const char *cell; /* inside `owner`, also `length` bytes; then `value` and `at` are NULL */
} Member;

typedef struct {
    PyObject_HEAD
    PyObject *owner; /* the object that contains the members' text, or NULL; owned */
    Member *members; /* an array of `room`, of which `used` are filled and `live` not removed */
    Py_ssize_t used;
    Py_ssize_t live;
    Py_ssize_t room;
} Members;

extern PyTypeObject Members_Type;
#define Members_Check(object) (Py_TYPE(object) == &Members_Type)

int members_init(PyObject *raw_type, PyObject *encode, PyObject *decode_text);
/* An empty object; it takes a reference to `owner`, which may be NULL. */
Members *members_new(PyObject *owner);
/* A member at the end, uninitialised, which the caller fills at once; valid until the next addition. */
Member *members_add(Members *self);
/* Add a member of another object under another name. */
int members_share(Members *self, const Members *row, const Member *source, Name *name);
/* The member with a name, valid until the next addition; NULL without an exception if there is none. */
Member *members_find(Members *self, PyObject *name);
Member *members_find_name(Members *self, const Name *name);
/* A member's value for Python: what Python put there, or a msgspec.Raw of its text. */
PyObject *member_value(const Member *member);
/* A member's value as text, as `pipeline.values.text`; None for JSON null. */
PyObject *member_text(const Member *member);
/* Whether it is JSON null. */
static inline int
member_is_null(const Member *member)
{
    return member->at != NULL && member->length > 0 && *member->at == 'n';
}
/* Give the member at an index the JSON text of its value, as msgspec encodes it. Runs Python. */
int members_encode(Members *self, Py_ssize_t index);
/* The msgspec.Raw of some JSON text. */
PyObject *raw_of_text(const char *at, Py_ssize_t length);
/* The msgspec.Raw of a value's JSON text, as msgspec encodes it. Runs Python. */
PyObject *raw_of(PyObject *value);
/* Remove a member; its value is released last, which may run Python. */
void members_remove(Members *self, Member *member);
/* Fill an unnamed member with a value, without taking a reference; if it is a Raw, also with its text. */
int member_of_raw(Member *member, PyObject *value);
/* Set the value of a member. TypeError for Members. */
int members_put(Member *member, PyObject *value);
/* Set the value of a name, in its place or at the end. */
int members_set(Members *self, PyObject *name, PyObject *value);

/* The bytes of one cell in a delimited text, without quotes. */
typedef struct {
    const char *at;
    Py_ssize_t length;
    char wide;    /* whether a character is beyond ASCII; all are UTF-8 */
    char doubled; /* whether they contain the quote, which is doubled there */
    char quote;
} Span;

/* The str of a cell. (delimited.c) */
PyObject *text_of_span(const Span *span);
/* The Members of a row with these cells, which are inside `owner`, one per column. (cells.c) */
PyObject *members_of_spans(PyObject *cells, const Span *spans, PyObject *owner);
/* How many columns Cells have that create Members; -1 for those that create JSON. (cells.c) */
Py_ssize_t columns_of(PyObject *cells);

/* Whether Blanks treat a member as missing, whatever its name; -1 with an exception. Runs Python. (blanks.c) */
int blanks_has(PyObject *blanks, const Member *member);

/* --- texts (quoting.c) ---------------------------------------------------------------------------------- */

/* Whether bytes are UTF-8. (lines.c) */
int is_utf8(const char *at, Py_ssize_t length);
/* How many bytes this UTF-8 takes as a JSON string, quotes included. */
Py_ssize_t quoted_length(const char *at, Py_ssize_t length);
/* Write it; returns the byte after it. */
char *write_quoted(char *to, const char *at, Py_ssize_t length);
/* The same for a text in which nothing needs escaping, so that it takes `length` + 2 bytes; NULL for any other, and
 * then no more than these bytes were overwritten. */
char *write_plain(char *to, const char *at, Py_ssize_t length);

/* The types; _native.pyi has their arguments, results and errors. */
extern PyTypeObject Lines_Type, Opener_Type; /* lines.c */
extern PyTypeObject Renames_Type, Spread_Type; /* renames.c */
extern PyTypeObject Writer_Type;   /* writer.c */
extern PyTypeObject Observer_Type; /* observer.c */
extern PyTypeObject Appender_Type; /* appender.c */
extern PyTypeObject Reader_Type;   /* texts.c */
extern PyTypeObject Header_Type;   /* header.c */
extern PyTypeObject Cells_Type;    /* cells.c */
extern PyTypeObject Delimited_Type; /* delimited.c */
extern PyTypeObject Blanks_Type;   /* blanks.c */
int observer_init(void);

#endif
