/* XXH3 by its specification (github.com/Cyan4973/xxHash, doc/xxhash_spec.md), for little-endian machines. */

#include "xxh3.h"
#include "words.h"

#define P32_1 UINT64_C(0x9E3779B1)
#define P32_2 UINT64_C(0x85EBCA77)
#define P32_3 UINT64_C(0xC2B2AE3D)
#define P64_1 UINT64_C(0x9E3779B185EBCA87)
#define P64_2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define P64_3 UINT64_C(0x165667B19E3779F9)
#define P64_4 UINT64_C(0x85EBCA77C2B2AE63)
#define P64_5 UINT64_C(0x27D4EB2F165667C5)

enum { SECRET = 192, STRIPE = 64, LANES = 8, BLOCK = (SECRET - STRIPE) / 8 * STRIPE, SHORT = 128, MIDDLE = 240 };

static const unsigned char secret[SECRET] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};

static inline uint64_t
avalanche(uint64_t hash)
{
    hash = (hash ^ hash >> 37) * UINT64_C(0x165667919E3779F9);
    return hash ^ hash >> 32;
}

static inline uint64_t
folded(uint64_t one, uint64_t other)
{
    __extension__ typedef unsigned __int128 uint128_t;
    uint128_t product = (uint128_t)one * other;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t
mix16(const unsigned char *text, const unsigned char *key)
{
    return folded(read8(text) ^ read8(key), read8(text + 8) ^ read8(key + 8));
}

static inline void
mix32(uint64_t sums[2], const unsigned char *text, const unsigned char *other, const unsigned char *key)
{
    sums[0] = (sums[0] + mix16(text, key)) ^ (read8(other) + read8(other + 8));
    sums[1] = (sums[1] + mix16(other, key + 16)) ^ (read8(text) + read8(text + 8));
}

static void
finish_short(uint64_t sums[2], size_t length, uint64_t halves[2])
{
    halves[1] = avalanche(sums[0] + sums[1]);
    halves[0] = 0 - avalanche(sums[0] * P64_1 + sums[1] * P64_4 + length * P64_2);
}

/* 17 to 128 bytes: pairs of 16 bytes from both ends. */
static void
hash_short(const unsigned char *text, size_t length, uint64_t halves[2])
{
    uint64_t sums[2] = {length * P64_1, 0};
    for (size_t i = (length - 1) / 32 + 1; i-- > 0;)
        mix32(sums, text + 16 * i, text + length - 16 * (i + 1), secret + 32 * i);
    finish_short(sums, length, halves);
}

/* 129 to 240 bytes. */
static void
hash_middle(const unsigned char *text, size_t length, uint64_t halves[2])
{
    uint64_t sums[2] = {length * P64_1, 0};
    for (size_t i = 0; i < 4; i++)
        mix32(sums, text + 32 * i, text + 32 * i + 16, secret + 32 * i);
    sums[0] = avalanche(sums[0]);
    sums[1] = avalanche(sums[1]);
    for (size_t i = 4; i < length / 32; i++)
        mix32(sums, text + 32 * i, text + 32 * i + 16, secret + 3 + 32 * (i - 4));
    mix32(sums, text + length - 16, text + length - 32, secret + 103);
    finish_short(sums, length, halves);
}

static inline void
add_stripe(uint64_t *lanes, const unsigned char *text, const unsigned char *key)
{
#pragma GCC unroll 8
    for (int i = 0; i < LANES; i++) {
        uint64_t data = read8(text + 8 * i), mixed = data ^ read8(key + 8 * i);
        lanes[i ^ 1] += data;
        lanes[i] += (mixed & UINT32_MAX) * (mixed >> 32);
    }
}

static inline uint64_t
merged(const uint64_t *lanes, const unsigned char *key, uint64_t start)
{
    for (int i = 0; i < LANES; i += 2)
        start += folded(lanes[i] ^ read8(key + 8 * i), lanes[i + 1] ^ read8(key + 8 * i + 8));
    return avalanche(start);
}

static void
hash_long(const unsigned char *text, size_t length, uint64_t halves[2])
{
    uint64_t lanes[LANES] = {P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1};
    for (size_t stripe = 0, at = 0; at + STRIPE < length; at += STRIPE) {
        add_stripe(lanes, text + at, secret + 8 * stripe);
        if (++stripe < BLOCK / STRIPE)
            continue;
        stripe = 0;
        for (int i = 0; i < LANES; i++)
            lanes[i] = (lanes[i] ^ lanes[i] >> 47 ^ read8(secret + SECRET - STRIPE + 8 * i)) * P32_1;
    }
    add_stripe(lanes, text + length - STRIPE, secret + SECRET - STRIPE - 7);
    halves[1] = merged(lanes, secret + 11, length * P64_1);
    halves[0] = merged(lanes, secret + SECRET - STRIPE - 11, ~(length * P64_2));
}

void
xxh3_128(const unsigned char *text, size_t length, uint64_t halves[2])
{
    if (length <= SHORT)
        hash_short(text, length, halves);
    else if (length <= MIDDLE)
        hash_middle(text, length, halves);
    else
        hash_long(text, length, halves);
}
