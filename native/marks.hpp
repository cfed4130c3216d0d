// Where fields end: the places of separators and line feeds, found sixty-four bytes at a time.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tastespace {

// A bit for each of 64 bytes: is it the one mark or the other?
inline uint64_t marks_of(const char *block, char one, char other) {
  uint64_t marks = 0;
#if defined(__SSE2__)
  const __m128i ones = _mm_set1_epi8(one), others = _mm_set1_epi8(other);
  for (int k = 0; k < 4; ++k) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i *>(block + 16 * k));
    const __m128i found = _mm_or_si128(_mm_cmpeq_epi8(bytes, ones), _mm_cmpeq_epi8(bytes, others));
    marks |= uint64_t(uint32_t(_mm_movemask_epi8(found))) << (16 * k);
  }
#else
  for (int k = 0; k < 64; ++k) marks |= uint64_t(block[k] == one || block[k] == other) << k;
#endif
  return marks;
}

// The marks of a text, one after another.
class Marks {
 public:
  Marks(const char *begin, const char *end, char one, char other)
      : block_(begin), end_(end), one_(one), other_(other), marks_(load()) {}

  // The next mark, or the end of the text.
  const char *next() {
    while (marks_ == 0) {
      if (end_ - block_ <= 64) return end_;
      block_ += 64;
      marks_ = load();
    }
    const char *found = block_ + std::countr_zero(marks_);
    marks_ &= marks_ - 1;
    return found;
  }

 private:
  uint64_t load() const {
    if (end_ - block_ >= 64) return marks_of(block_, one_, other_);
    char last[64] = {};
    const size_t n = size_t(end_ - block_);
    if (n == 0) return 0;
    std::memcpy(last, block_, n);
    return marks_of(last, one_, other_) & ((uint64_t(1) << n) - 1);
  }

  const char *block_;
  const char *end_;
  char one_, other_;
  uint64_t marks_;
};

}  // namespace tastespace
