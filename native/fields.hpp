// Numbers and times as written in files. Blanks around them are handled by the caller.
#pragma once

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <locale>
#include <sstream>
#include <string>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tastespace {

constexpr int64_t NOT_A_TIME = std::numeric_limits<int64_t>::min();  // as in NumPy
constexpr int64_t EARLIEST = -62135596800, LATEST = 253402300799;    // the years 1 to 9999

inline bool is_digit(char c) { return unsigned(c - '0') < 10; }

// The value of the eight digits at `text`, if they are digits: three multiplications instead of eight.
inline bool take_eight_digits(const char *text, uint64_t &value) {
  if constexpr (std::endian::native != std::endian::little) return false;
  uint64_t bytes;
  std::memcpy(&bytes, text, 8);
  const uint64_t above = bytes + 0x4646464646464646u, below = bytes - 0x3030303030303030u;
  if (((above | below) & 0x8080808080808080u) != 0) return false;
  value = below * 10 + (below >> 8);  // pairs of digits, then pairs of pairs
  value = (((value & 0x000000FF000000FFu) * 0x000F424000000064u) +
           (((value >> 16) & 0x000000FF000000FFu) * 0x0000271000000001u)) >>
          32;
  return true;
}

// A number too long or too large for the fast path below.
inline bool parse_any_number(const char *text, const char *end, double &value) {
#if defined(__cpp_lib_to_chars)
  if (*text == '+') ++text;
  const auto [stop, error] = std::from_chars(text, end, value);
  return error == std::errc() && stop == end;
#else
  std::istringstream stream(std::string(text, end));
  stream.imbue(std::locale::classic());
  return bool(stream >> value) && stream.peek() == std::char_traits<char>::eof();
#endif
}

// Digits with at most one point and an exponent; neither "nan" nor "inf" nor hexadecimal.
inline bool parse_number(const char *text, const char *end, double &value) {
  static const double powers[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
  const char *at = text;
  const bool is_negative = at < end && *at == '-';
  if (at < end && (*at == '-' || *at == '+')) ++at;
  uint64_t digits = 0;
  const char *first = at;
  if (end - at >= 8 && take_eight_digits(at, digits)) at += 8;
  while (at < end && is_digit(*at)) digits = digits * 10 + uint64_t(*at++ - '0');
  int64_t n_digits = at - first, n_decimals = 0;
  if (at < end && *at == '.') {
    first = ++at;
    while (at < end && is_digit(*at)) digits = digits * 10 + uint64_t(*at++ - '0');
    n_decimals = at - first;
    n_digits += n_decimals;
  }
  if (n_digits == 0) return false;
  if (at == end && n_digits <= 15) {  // The digits fit a double, so that one division gives the nearest one.
    value = double(digits) / powers[n_decimals];
    if (is_negative) value = -value;
    return true;
  }
  if (at < end) {
    if (*at != 'e' && *at != 'E') return false;
    ++at;
    if (at < end && (*at == '-' || *at == '+')) ++at;
    if (at == end) return false;
    for (const char *digit = at; digit < end; ++digit)
      if (!is_digit(*digit)) return false;
  }
  return parse_any_number(text, end, value);
}

// Exactly how an integer is written: "7" and "-7", not "007", "+7", "7.0" or "-0"; and it fits.
inline bool parse_canonical_integer(const char *text, const char *end, int64_t &value) {
  const bool is_negative = text < end && *text == '-';
  const char *first = text + is_negative;
  if (first == end || !is_digit(*first) || (*first == '0' && (end - first > 1 || is_negative))) return false;
  const auto [stop, error] = std::from_chars(text, end, value);
  return error == std::errc() && stop == end;
}

// Days since 1970 of a date of the proleptic Gregorian calendar: years begin in March, so that the leap day is last.
inline int64_t days_of(int64_t year, int64_t month, int64_t day) {
  year -= month <= 2;
  const int64_t era = (year >= 0 ? year : year - 399) / 400, of_era = year - era * 400;
  const int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

// Exactly `n` digits.
inline bool take_digits(const char *&at, const char *end, int n, int64_t &value) {
  if (end - at < n) return false;
  value = 0;
  for (int k = 0; k < n; ++k, ++at) {
    if (!is_digit(*at)) return false;
    value = value * 10 + (*at - '0');
  }
  return true;
}
inline bool take_mark(const char *&at, const char *end, char mark) { return at < end && *at == mark && (++at, true); }

// +02:00, -0530 or Z; nothing is taken as UTC.
inline bool parse_zone(const char *at, const char *end, int64_t &seconds) {
  seconds = 0;
  if (at == end || (end - at == 1 && (*at == 'Z' || *at == 'z'))) return true;
  const int64_t sign = *at == '-' ? -1 : 1;
  if (*at != '-' && *at != '+') return false;
  ++at;
  int64_t hours = 0, minutes = 0;
  if (!take_digits(at, end, 2, hours)) return false;
  if (at < end) {
    take_mark(at, end, ':');
    if (!take_digits(at, end, 2, minutes)) return false;
  }
  seconds = sign * (hours * 3600 + minutes * 60);
  return at == end && hours < 24 && minutes < 60;
}

inline bool parse_date(const char *at, const char *end, int64_t &seconds) {
  static const int64_t lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  int64_t year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, zone = 0;
  if (!take_digits(at, end, 4, year) || !take_mark(at, end, '-') || !take_digits(at, end, 2, month) ||
      !take_mark(at, end, '-') || !take_digits(at, end, 2, day))
    return false;
  if (year < 1 || month < 1 || month > 12 || day < 1) return false;
  const bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  if (day > lengths[month - 1] + (month == 2 && is_leap)) return false;
  if (at < end) {
    if (*at != ' ' && *at != 'T' && *at != 't') return false;
    ++at;
    if (!take_digits(at, end, 2, hour) || !take_mark(at, end, ':') || !take_digits(at, end, 2, minute)) return false;
    if (take_mark(at, end, ':')) {
      if (!take_digits(at, end, 2, second)) return false;
      if (take_mark(at, end, '.')) {
        if (at == end || !is_digit(*at)) return false;
        while (at < end && is_digit(*at)) ++at;
      }
    }
    if (hour > 23 || minute > 59 || second > 59) return false;
    if (!parse_zone(at, end, zone)) return false;
  }
  seconds = days_of(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - zone;
  return true;
}

// Seconds since 1970 or an ISO date, as whole seconds.
inline bool parse_time(const char *text, const char *end, int64_t &seconds) {
  double number = 0;
  if (end - text > 4 && text[4] == '-') {
    if (!parse_date(text, end, seconds)) return false;
  } else {
    if (!parse_number(text, end, number) || !(std::fabs(number) < 9e15)) return false;
    seconds = int64_t(number);
  }
  return seconds >= EARLIEST && seconds <= LATEST;
}

// Where fields end: the places of separators and line feeds, found sixty-four bytes at a time.

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
