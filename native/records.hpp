// Delimited text to ratings: fields, ids, numbers and times in one pass over the bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace tastespace {

// Ids as rows, in order of first appearance: a hash table whose keys lie one after another in one buffer.
class IdTable {
 public:
  IdTable() : slots_(1024), ends_(1, 0) {}

  int64_t size() const { return int64_t(ends_.size()) - 1; }
  const char *begin_of(int64_t row) const { return bytes_.data() + ends_[size_t(row)]; }
  int64_t length_of(int64_t row) const { return ends_[size_t(row) + 1] - ends_[size_t(row)]; }
  int64_t n_bytes() const { return int64_t(bytes_.size()); }

  // An id with its place in the table. Up to `limit` may be read, though not all belongs to the id.
  struct Key {
    const char *text = nullptr;
    int64_t length = 0;
    uint64_t bits = 0;   // up to eight bytes the id itself, beyond a digest
    uint64_t place = 0;  // where the search begins
  };
  static Key key_of(const char *text, int64_t length, const char *limit) {
    uint64_t bits = word(text, length, limit);
    for (int64_t at = 8; at < length; at += 8) bits = mixed(bits) + word(text + at, length - at, limit);
    return {text, length, bits, mixed(bits ^ uint64_t(length))};
  }

  // Prefetches the memory that a search will need, so that other work can be done meanwhile.
  void expect(const Key &key) const {
#if defined(__GNUC__)
    __builtin_prefetch(&slots_[key.place & (slots_.size() - 1)]);
#else
    (void)key;
#endif
  }
  // The row of an id, -1 if it is unknown.
  int32_t find(const Key &key) const { return slot_of(key).row; }
  // The row of an id, a new one if it is unknown.
  int32_t add(const Key &key) {
    Slot &slot = const_cast<Slot &>(slot_of(key));
    return slot.row >= 0 ? slot.row : insert(slot, key);
  }

 private:
  struct Slot {  // small, because a lookup is one cache miss
    uint64_t bits = 0;
    int32_t length = 0;
    int32_t row = -1;
  };

  static uint64_t word(const char *text, int64_t length, const char *limit) {
    uint64_t bits = 0;
    if (limit - text >= 8) {
      std::memcpy(&bits, text, 8);
      // Little-endian or not, the bytes kept are the same ones for every id.
      return length >= 8 ? bits : bits & kept_[length].bits;
    }
    std::memcpy(&bits, text, size_t(length < 8 ? length : 8));
    return bits;
  }
  static uint64_t mixed(uint64_t bits) {
    bits *= 0x9E3779B97F4A7C15u;
    bits ^= bits >> 32;
    bits *= 0xD6E8FEB86659FD93u;
    return bits ^ (bits >> 32);
  }
  const Slot &slot_of(const Key &key) const {
    for (uint64_t at = key.place;; ++at) {
      const Slot &slot = slots_[at & (slots_.size() - 1)];
      if (slot.row < 0 || (slot.bits == key.bits && slot.length == key.length &&
                           (key.length <= 8 || same(slot.row, key.text, key.length))))
        return slot;
    }
  }
  bool same(int32_t row, const char *text, int64_t length) const {
    return std::memcmp(begin_of(row), text, size_t(length)) == 0;
  }

  int32_t insert(Slot &slot, const Key &key) {
    const int32_t row = int32_t(size());
    slot = Slot{key.bits, int32_t(key.length), row};
    bytes_.insert(bytes_.end(), key.text, key.text + key.length);
    ends_.push_back(int64_t(bytes_.size()));
    if (size() * 2 > int64_t(slots_.size())) grow();
    return row;
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot &slot : old) {
      if (slot.row < 0) continue;
      uint64_t at = mixed(slot.bits ^ uint64_t(slot.length));
      while (slots_[at & (slots_.size() - 1)].row >= 0) ++at;
      slots_[at & (slots_.size() - 1)] = slot;
    }
  }

  // Masks that keep the first bytes of a word in memory order.
  struct Kept {
    uint64_t bits;
    explicit Kept(int n) {
      unsigned char bytes[8] = {};
      for (int k = 0; k < n; ++k) bytes[k] = 0xFF;
      std::memcpy(&bits, bytes, 8);
    }
  };
  inline static const Kept kept_[8] = {Kept(0), Kept(1), Kept(2), Kept(3), Kept(4), Kept(5), Kept(6), Kept(7)};

  std::vector<Slot> slots_;
  std::vector<char> bytes_;
  std::vector<int64_t> ends_;
};

enum class Part : int { user, item, rating, time };
constexpr int N_PARTS = 4;

enum class FaultKind : int { none, ragged, quote, missing, too_long, not_unicode, not_a_number, not_a_time };

// Why a record cannot be read.
struct Fault {
  FaultKind kind = FaultKind::none;
  int part = -1;
  int64_t offset = 0;  // of the first byte of the record
  int64_t n_fields = 0;
  std::string cell;
};

struct TextLayout {
  std::string separator;
  bool has_header = false;
  bool skips_faults = false;  // count them and continue, instead of stopping at the first
  int64_t n_columns = 0;
  int64_t columns[N_PARTS] = {-1, -1, -1, -1};  // of user, item, rating, time; -1: there is none
};

struct IdColumn {
  IdTable table;
  bool has_quotes = false;  // a quoted id is text
};

struct Records {
  int64_t n = 0;
  int64_t n_rejected = 0;
  Fault fault;  // the first one
  IdColumn ids[2];
  std::unique_ptr<int32_t[]> rows[2];
  std::unique_ptr<float[]> values;
  std::unique_ptr<int64_t[]> times;
};

Records read_records(const char *data, int64_t size, const TextLayout &layout, int threads);

}  // namespace tastespace
