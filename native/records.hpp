// Delimited text to ratings: fields, ids, numbers and times in one pass over the bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ids.hpp"

namespace tastespace {

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
  bool skips_faults = false;  // count them and go on, instead of stopping at the first
  int64_t n_columns = 0;
  int64_t columns[N_PARTS] = {-1, -1, -1, -1};  // of user, item, rating, time; -1: there is none
};

struct IdColumn {
  IdTable table;
  bool has_quotes = false;  // whoever wrote quotation marks around an id meant text
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
