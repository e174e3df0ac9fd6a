/* Values as JSON text that this program wrote: where one ends, which of the kinds it is, its hash, its length.
 *
 * All is inline, since it is what counting a property's values consists of (drift.c). The kinds are those of
 * `pipeline.transform.drift`. */

#ifndef BACKCAST_VALUE_KINDS_H
#define BACKCAST_VALUE_KINDS_H

#include "native.h"
#include "words.h"

#define LONGEST_NUMBER 20
#define SAFE_DIGITS 16
#define SAFE_INTEGER 9007199254740992u

enum { MISSING, BLANK, TEXT, NUMERIC, INTEGER, LARGE, DECIMAL, BOOLEAN, OBJECT, LIST, LARGE_IN_OBJECT, LARGE_IN_LIST, COMMA, ROUNDED, KINDS };

static inline uint32_t
read4(const char *at)
{
    uint32_t four;
    memcpy(&four, at, 4);
    return four;
}

static inline uint32_t
rotate(uint32_t value, int bits)
{
    return value << bits | value >> (32 - bits);
}

#define ONES UINT64_C(0x0101010101010101)

/* The bytes of a word that have a value, by their highest bits; of a little-endian machine, the first is the lowest. */
static inline uint64_t
bytes_equal(uint64_t word, char value)
{
    uint64_t other = word ^ ONES * (unsigned char)value, low = ONES * 0x7F;
    return ~(((other & low) + low) | other | low);
}

/* XXH32 with the seed 0, as `xxhash.xxh32_intdigest` computes it. */
static inline uint32_t
hash_of(const char *at, size_t length)
{
    const uint32_t p1 = 2654435761u, p2 = 2246822519u, p3 = 3266489917u, p4 = 668265263u, p5 = 374761393u;
    const char *end = at + length;
    uint32_t hash = p5;
    if (length >= 16) {
        uint32_t lanes[4] = {p1 + p2, p2, 0, 0u - p1};
        for (; end - at >= 16; at += 16)
            for (int lane = 0; lane < 4; lane++)
                lanes[lane] = rotate(lanes[lane] + read4(at + 4 * lane) * p2, 13) * p1;
        hash = rotate(lanes[0], 1) + rotate(lanes[1], 7) + rotate(lanes[2], 12) + rotate(lanes[3], 18);
    }
    hash += (uint32_t)length;
    for (; end - at >= 4; at += 4)
        hash = rotate(hash + read4(at) * p3, 17) * p4;
    for (; at < end; at++)
        hash = rotate(hash + (unsigned char)*at * p5, 11) * p1;
    hash = (hash ^ hash >> 15) * p2;
    hash = (hash ^ hash >> 13) * p3;
    return hash ^ hash >> 16;
}

/* The closing quote of a text with escaped ones; NULL without one. */
static inline const char *
escaped_end(const char *at, const char *end)
{
    uint64_t before = 0; /* whether a backslash is before a word */
    const char *from = at;
    for (; end - from >= 8; from += 8) {
        uint64_t word = read8(from), slashes = bytes_equal(word, '\\'), after = slashes << 8 | before;
        if (slashes & after)
            break; /* two of them, or more: whether their number is odd is found one by one */
        uint64_t quotes = bytes_equal(word, '"') & ~after;
        if (quotes)
            return from + __builtin_ctzll(quotes) / 8;
        before = slashes >> 56;
    }
    for (; from < end; from++) {
        from = memchr(from, '"', (size_t)(end - from));
        if (from == NULL)
            return NULL;
        const char *first = from;
        while (first > at && first[-1] == '\\')
            first--;
        if ((from - first) % 2 == 0)
            return from;
    }
    return NULL;
}

/* The closing quote of a text whose first character is at `at`; NULL without one. */
static inline const char *
text_end(const char *at, const char *end)
{
    const char *quote = at < end ? memchr(at, '"', (size_t)(end - at)) : NULL;
    return quote == NULL || quote == at || quote[-1] != '\\' ? quote : escaped_end(at, end);
}

/* What follows a value; NULL where the value does not end. */
static inline const char *
value_end(const char *at, const char *end)
{
    if (at < end && *at == '"')
        return (at = text_end(at + 1, end)) == NULL ? NULL : at + 1;
    if (at < end && (*at == '{' || *at == '[')) {
        for (int depth = 0; at < end; at++) {
            if (*at == '"') {
                if ((at = text_end(at + 1, end)) == NULL)
                    return NULL;
            } else if (*at == '{' || *at == '[') {
                depth++;
            } else if ((*at == '}' || *at == ']') && --depth == 0) {
                return at + 1;
            }
        }
        return NULL;
    }
    const char *first = at;
    while (at < end && *at != ',' && *at != '}' && (unsigned char)*at > ' ')
        at++;
    return at == first || at == end ? NULL : at;
}

static inline int
is_digit(char character)
{
    return character >= '0' && character <= '9';
}

/* Whether a text is an amount with a decimal comma and two decimals: 49,90, 1.234,50 or 1 234,50. */
static inline int
is_comma_number(const char *at, const char *end)
{
    if (at < end && *at == '-')
        at++;
    const char *comma = end - 3, *first = at;
    if (comma <= at || *comma != ',' || !is_digit(end[-1]) || !is_digit(end[-2]) || (*at == '0' && comma - at > 1))
        return 0;
    while (at < comma && is_digit(*at))
        at++;
    if (at == comma)
        return 1;
    if (at == first || at - first > 3)
        return 0;
    for (; at < comma; at += 4)
        if (comma - at < 4 || (*at != '.' && *at != ' ') || !is_digit(at[1]) || !is_digit(at[2]) || !is_digit(at[3]))
            return 0;
    return 1;
}

/* Whether a text is a number whose last digits a spreadsheet rounded off (`pipeline.timestamps.lost_digits`). */
static inline int
is_rounded(const char *at, const char *end)
{
    if (at < end && *at == '-')
        at++;
    if (end - at < 5 || !is_digit(*at) || end[-3] != '+' || (end[-4] | 32) != 'e' || !is_digit(end[-2]) ||
        !is_digit(end[-1]))
        return 0;
    const char *exponent = end - 4, *fraction = at + 1;
    if (fraction < exponent && *fraction != '.' && *fraction != ',')
        return 0;
    for (const char *digit = fraction + 1; digit < exponent; digit++)
        if (!is_digit(*digit))
            return 0;
    Py_ssize_t digits = fraction < exponent ? exponent - fraction - 1 : 0;
    return (fraction == exponent || digits > 0) && (end[-2] - '0') * 10 + end[-1] - '0' > digits;
}

/* BLANK, NUMERIC, COMMA, ROUNDED or TEXT: a number without exponent, and without a zero before it, is numeric. */
static inline int
kind_of_text(const char *at, const char *end)
{
    if (at == end)
        return BLANK;
    if (*at == ' ') {
        while (at < end && *at == ' ')
            at++;
        return at == end ? BLANK : TEXT;
    }
    if (!(is_digit(*at) || *at == '-') || end - at > LONGEST_NUMBER)
        return TEXT;
    if (end - at > 3 && end[-3] == ',')
        return is_comma_number(at, end) ? COMMA : TEXT;
    if (end - at > 3 && end[-3] == '+')
        return is_rounded(at, end) ? ROUNDED : TEXT;
    if (*at == '-')
        at++;
    if (at == end || !is_digit(*at) || (*at == '0' && end - at > 1 && at[1] != '.'))
        return TEXT;
    while (at < end && is_digit(*at))
        at++;
    if (at < end && *at == '.') {
        if (++at == end)
            return TEXT;
        while (at < end && is_digit(*at))
            at++;
    }
    return at == end ? NUMERIC : TEXT;
}

static inline int
kind_of_number(const char *at, const char *end)
{
    if (*at == '-')
        at++;
    uint64_t number = 0;
    Py_ssize_t digits = end - at;
    for (const char *digit = at; digit < end; digit++) {
        if (!is_digit(*digit))
            return DECIMAL;
        if (digits <= SAFE_DIGITS)
            number = number * 10 + (uint64_t)(*digit - '0');
    }
    return digits > SAFE_DIGITS || number > SAFE_INTEGER ? LARGE : INTEGER;
}

/* Whether an object or a list has an integer beyond 2^53, at any depth. */
static inline int
has_large(const char *at, const char *end)
{
    for (; at < end; at++) {
        if (*at == '"') {
            if ((at = text_end(at + 1, end)) == NULL)
                return 0;
        } else if (is_digit(*at)) {
            const char *first = at;
            while (at < end && *at != ',' && *at != '}' && *at != ']' && (unsigned char)*at > ' ')
                at++;
            if (at - first >= SAFE_DIGITS && kind_of_number(first, at) == LARGE)
                return 1;
            at--;
        }
    }
    return 0;
}

static inline int
kind_of(const char *at, const char *end)
{
    switch (*at) {
    case '"':
        return kind_of_text(at + 1, end - 1);
    case 'n':
        return MISSING;
    case 't':
    case 'f':
        return BOOLEAN;
    case '{':
        return has_large(at, end) ? LARGE_IN_OBJECT : OBJECT;
    case '[':
        return has_large(at, end) ? LARGE_IN_LIST : LIST;
    default:
        return kind_of_number(at, end);
    }
}

/* The characters of a text that has an escape of a backslash or of a code. A surrogate pair is one. */
static inline uint32_t
characters_slowly(const char *at, const char *end)
{
    uint32_t count = 0;
    for (; at < end; at++) {
        if (*at == '\\') {
            at++;
            if (*at == 'u' && end - at > 4) {
                int low = (at[1] | 32) == 'd' && (at[2] | 32) >= 'c' && (at[2] | 32) <= 'f';
                at += 4;
                if (low)
                    continue;
            }
        }
        count += ((unsigned char)*at & 0xC0) != 0x80;
    }
    return count;
}

/* The characters of a text, eight bytes at a time: those of UTF-8 that begin one, less the backslashes. */
static inline uint32_t
characters(const char *at, const char *end)
{
    uint64_t before = 0, others = 0; /* whether a backslash is before a word; the bytes that begin no character */
    const char *from = at;
    for (; end - from >= 8; from += 8) {
        uint64_t word = read8(from), slashes = bytes_equal(word, '\\'), after = slashes << 8 | before;
        if (after & (slashes | bytes_equal(word, 'u')))
            return characters_slowly(at, end);
        others += (((slashes | (word & ~word << 1 & ONES << 7)) >> 7) * ONES) >> 56;
        before = slashes >> 56;
    }
    return (uint32_t)(from - at) - (uint32_t)others + characters_slowly(from - (before != 0), end);
}

#endif
