// Delimited text to ratings: the reader and its binding, bytes in, an object that owns the arrays out.
#include "records.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include "arguments.hpp"
#include "fields.hpp"
#include "machine.hpp"

namespace tastespace {
namespace {

constexpr double FIRST_INFINITE = 0x1.ffffffp127;  // the smallest number that single precision rounds to infinity
constexpr int64_t LONGEST_ID = 65535;              // bytes; a longer one is not an id
constexpr int64_t SMALL = 1 << 20;                 // bytes below which a second thread does not pay off

struct Field {
  const char *begin = nullptr;
  const char *end = nullptr;
  bool is_quoted = false;
  bool has_escapes = false;  // doubled quotation marks inside
};

bool is_blank(char c) { return c == ' ' || c == '\t'; }

void trim(Field &field) {
  if (field.is_quoted) return;
  while (field.begin < field.end && is_blank(*field.begin)) ++field.begin;
  while (field.begin < field.end && is_blank(field.end[-1])) --field.end;
}

bool has_letters(const char *begin, const char *end) {
  return std::any_of(begin, end, [](char c) { return !is_blank(c) && c != '\n' && c != '\r'; });
}

// Well-formed by RFC 3629: no overlong forms, no surrogates, nothing beyond U+10FFFF.
bool is_unicode(const char *text, const char *end) {
  auto at = reinterpret_cast<const unsigned char *>(text);
  const auto stop = reinterpret_cast<const unsigned char *>(end);
  while (at < stop) {
    const unsigned first = *at++;
    if (first < 0x80) continue;
    const int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
    if (first < 0xC2 || first > 0xF4 || stop - at < more) return false;
    const unsigned next = *at;
    if ((first == 0xE0 && next < 0xA0) || (first == 0xED && next > 0x9F) || (first == 0xF0 && next < 0x90) ||
        (first == 0xF4 && next > 0x8F))
      return false;
    for (int k = 0; k < more; ++k)
      if ((*at++ & 0xC0) != 0x80) return false;
  }
  return true;
}

// One piece of the text, read from its first record to its last.
class Reader {
 public:
  Reader(const char *data, const char *limit, const TextLayout &layout, bool knows_quotes)
      : data_(data), limit_(limit), layout_(layout), knows_quotes_(knows_quotes) {
    fields_.resize(size_t(std::max<int64_t>(layout.n_columns, 1)));
  }

  // Moves past the header, the first record that is not blank.
  const char *skip_header(const char *at) {
    while (at < limit_) {
      const char *next = split(at, limit_);
      if (next == nullptr) return after_line(at, limit_);
      at = next;
      if (!is_blank_record()) return at;
    }
    return at;
  }

  void read(const char *at, const char *end, IdColumn *ids, int32_t *const *rows, float *values, int64_t *times) {
    Marks marks(at, end, layout_.separator[0], '\n');
    const bool is_plain = !knows_quotes_ && layout_.separator.size() == 1;
    Fault fault;
    while (at < end) {
      const char *record = at;
      at = is_plain ? split_plain(marks, record, end) : split(record, end);
      if (at == nullptr) {
        fault.kind = FaultKind::quote;
        at = after_line(record, end);
      } else if (n_fields_ != layout_.n_columns || n_fields_ == 1 || layout_.separator == " ") {
        if (is_blank_record()) continue;
        if (n_fields_ != layout_.n_columns) {
          fault.kind = FaultKind::ragged;
          fault.n_fields = n_fields_;
        }
      }
      if (fault.kind == FaultKind::none && convert(fault, ids, rows, values, times)) {
        ++n;
        continue;
      }
      ++n_rejected;
      if (first.kind == FaultKind::none) {
        fault.offset = record - data_;
        first = fault;
      }
      if (!layout_.skips_faults) return;
      fault = Fault();
    }
  }

  int64_t n = 0, n_rejected = 0;
  Fault first;

 private:
  static const char *after_line(const char *at, const char *end) {
    const void *found = std::memchr(at, '\n', size_t(end - at));
    return found ? static_cast<const char *>(found) + 1 : end;
  }

  // The fields of a record without quotation marks.
  const char *split_plain(Marks &marks, const char *at, const char *end) {
    n_fields_ = 0;
    has_letters_beyond_ = false;
    while (true) {
      const char *mark = marks.next();
      const bool is_last = mark == end || *mark == '\n';
      const bool has_return = is_last && mark > at && mark[-1] == '\r';
      keep(Field{at, mark - has_return});
      if (is_last) return mark == end ? end : mark + 1;
      at = mark + 1;
    }
  }

  // Fills fields_ and n_fields_; returns the start of the next record, or null if a quotation mark is misplaced.
  const char *split(const char *at, const char *end) {
    n_fields_ = 0;
    has_letters_beyond_ = false;
    if (layout_.separator.size() > 1) return split_long(at, end);
    const char separator = layout_.separator[0];
    while (true) {
      Field field{at, at};
      if (knows_quotes_ && at < end && *at == '"') {
        at = close_quotes(field, end);
        if (at == nullptr) return nullptr;
        const bool at_return = at < end && *at == '\r' && (at + 1 == end || at[1] == '\n');
        if (at_return) ++at;
        if (at < end && *at != '\n' && (at_return || *at != separator)) return nullptr;
      } else {
        while (at < end && *at != separator && *at != '\n') ++at;
        field.end = at;
        if ((at == end || *at == '\n') && field.end > field.begin && field.end[-1] == '\r') --field.end;
      }
      keep(field);
      if (at == end) return at;
      if (*at++ == '\n') return at;
    }
  }

  const char *split_long(const char *at, const char *end) {
    const char *next = after_line(at, end);
    const char *stop = next > at && next[-1] == '\n' ? next - 1 : next;
    if (stop > at && stop[-1] == '\r') --stop;
    while (true) {
      const char *found = std::search(at, stop, layout_.separator.begin(), layout_.separator.end());
      keep(Field{at, found});
      if (found == stop) return next;
      at = found + layout_.separator.size();
    }
  }

  // From the opening mark to after the closing one.
  static const char *close_quotes(Field &field, const char *end) {
    field.is_quoted = true;
    const char *at = ++field.begin;
    while (true) {
      const void *found = std::memchr(at, '"', size_t(end - at));
      if (found == nullptr) return nullptr;
      at = static_cast<const char *>(found);
      if (at + 1 == end || at[1] != '"') break;
      field.has_escapes = true;
      at += 2;
    }
    field.end = at;
    return at + 1;
  }

  void keep(const Field &field) {
    if (n_fields_ < int64_t(fields_.size()))
      fields_[size_t(n_fields_)] = field;
    else if (has_letters(field.begin, field.end))
      has_letters_beyond_ = true;
    ++n_fields_;
  }

  bool is_blank_record() const {
    if (n_fields_ > 1 && layout_.separator != " ") return false;
    const int64_t kept = std::min<int64_t>(n_fields_, int64_t(fields_.size()));
    return !has_letters_beyond_ && std::none_of(fields_.begin(), fields_.begin() + kept,
                                                [](const Field &field) { return has_letters(field.begin, field.end); });
  }

  // All parts of a record, or none of them: an id counts only where the whole record can be read.
  bool convert(Fault &fault, IdColumn *ids, int32_t *const *rows, float *values, int64_t *times) {
    Field id[2];
    IdTable::Key keys[2];
    int32_t found[2] = {-1, -1};
    for (int part = 0; part < 2; ++part) {
      if (layout_.columns[part] < 0) continue;
      id[part] = fields_[size_t(layout_.columns[part])];
      if (id[part].has_escapes) id[part] = unescaped(id[part], scratch_[part]);
      trim(id[part]);
      if (!has_letters(id[part].begin, id[part].end)) return blame(fault, FaultKind::missing, part, id[part]);
      if (id[part].end - id[part].begin > LONGEST_ID) return blame(fault, FaultKind::too_long, part, Field());
      found[part] = last_[part].row_if(id[part]);
      if (found[part] >= 0) continue;
      const char *limit = id[part].has_escapes ? id[part].end : limit_;
      keys[part] = IdTable::key_of(id[part].begin, id[part].end - id[part].begin, limit);
      ids[part].table.expect(keys[part]);
    }
    if (layout_.columns[int(Part::rating)] >= 0 && !convert_rating(fault, values[n])) return false;
    if (layout_.columns[int(Part::time)] >= 0 && !convert_time(fault, times[n])) return false;
    for (int part = 0; part < 2; ++part) {
      if (layout_.columns[part] < 0 || found[part] >= 0) continue;
      found[part] = ids[part].table.find(keys[part]);
      if (found[part] < 0 && !is_unicode(id[part].begin, id[part].end))
        return blame(fault, FaultKind::not_unicode, part, id[part]);
    }
    for (int part = 0; part < 2; ++part) {
      if (layout_.columns[part] < 0) continue;
      if (found[part] < 0) found[part] = ids[part].table.add(keys[part]);
      rows[part][n] = found[part];
      ids[part].has_quotes |= id[part].is_quoted;
      if (!id[part].has_escapes) last_[part] = {id[part].begin, id[part].end - id[part].begin, found[part]};
    }
    return true;
  }

  // The id of the record before: files are often sorted by one side.
  struct Last {
    const char *begin = nullptr;
    int64_t length = -1;
    int32_t row = -1;

    int32_t row_if(const Field &id) const {
      return id.end - id.begin == length && std::memcmp(id.begin, begin, size_t(length)) == 0 ? row : -1;
    }
  };

  static bool blame(Fault &fault, FaultKind kind, int part, const Field &field) {
    fault.kind = kind;
    fault.part = part;
    fault.cell = std::string(field.begin, field.end);
    return false;
  }

  static Field unescaped(Field field, std::string &scratch) {
    scratch.clear();
    for (const char *at = field.begin; at < field.end; ++at) {
      scratch.push_back(*at);
      if (*at == '"') ++at;
    }
    field.begin = scratch.data();
    field.end = scratch.data() + scratch.size();
    return field;
  }

  // The text of a number or a time, for which quotation marks are ignored.
  Field plain(Part part) const {
    Field field = fields_[size_t(layout_.columns[int(part)])];
    field.is_quoted = false;
    trim(field);
    return field;
  }

  bool convert_rating(Fault &fault, float &value) const {
    const Field field = plain(Part::rating);
    double number = 0;
    if (field.begin == field.end) return blame(fault, FaultKind::missing, int(Part::rating), field);
    if (!parse_number(field.begin, field.end, number) || !(std::fabs(number) < FIRST_INFINITE))
      return blame(fault, FaultKind::not_a_number, int(Part::rating), field);
    value = float(number);
    return true;
  }

  bool convert_time(Fault &fault, int64_t &seconds) const {
    const Field field = plain(Part::time);
    seconds = NOT_A_TIME;
    if (field.begin == field.end || parse_time(field.begin, field.end, seconds)) return true;
    return blame(fault, FaultKind::not_a_time, int(Part::time), field);
  }

  const char *data_;
  const char *limit_;
  const TextLayout &layout_;
  bool knows_quotes_;
  std::vector<Field> fields_;
  int64_t n_fields_ = 0;
  bool has_letters_beyond_ = false;  // in a field without a column
  Last last_[2];
  std::string scratch_[2];
};

// A stretch of whole lines, for one thread.
struct Piece {
  const char *begin = nullptr;
  const char *end = nullptr;
  int64_t first_row = 0;  // the position of its records
  int64_t n_lines = 0;    // maximum number of records
  int64_t n = 0, n_rejected = 0;
  Fault fault;
  IdColumn ids[2];
  bool out_of_memory = false;
};

std::vector<Piece> cut(const char *begin, const char *end, int64_t n_pieces) {
  std::vector<Piece> pieces(static_cast<size_t>(n_pieces));
  const char *at = begin;
  for (int64_t k = 0; k < n_pieces; ++k) {
    const char *to = std::max(at, begin + (end - begin) * (k + 1) / n_pieces);
    const void *found = to < end ? std::memchr(to, '\n', size_t(end - to)) : nullptr;
    pieces[size_t(k)].begin = at;
    pieces[size_t(k)].end = at = found ? static_cast<const char *>(found) + 1 : end;
  }
  return pieces;
}

// The ids of the other pieces join those of the first, in the order of the text; returns their new rows.
std::vector<int32_t> joined(IdTable &table, const IdTable &other) {
  std::vector<int32_t> rows(size_t(other.size()));
  for (int64_t row = 0; row < other.size(); ++row) {
    const char *text = other.begin_of(row);
    rows[size_t(row)] = table.add(IdTable::key_of(text, other.length_of(row), text + other.length_of(row)));
  }
  return rows;
}

// Closes the gaps that blank or rejected lines have left between the pieces, and gives ids their common rows.
void join(std::vector<Piece> &pieces, const TextLayout &layout, Records &all) {
  for (Piece &piece : pieces) {
    std::vector<int32_t> rows[2];
    for (int side = 0; side < 2; ++side) {
      if (&piece == pieces.data())
        all.ids[side] = std::move(piece.ids[side]);
      else
        rows[side] = joined(all.ids[side].table, piece.ids[side].table);
      all.ids[side].has_quotes |= piece.ids[side].has_quotes;
      if (layout.columns[side] < 0) continue;
      int32_t *to = all.rows[side].get() + all.n;
      const int32_t *from = all.rows[side].get() + piece.first_row;
      if (rows[side].empty())
        std::copy(from, from + piece.n, to);
      else
        std::transform(from, from + piece.n, to, [&](int32_t row) { return rows[side][size_t(row)]; });
    }
    if (all.values) std::copy_n(all.values.get() + piece.first_row, piece.n, all.values.get() + all.n);
    if (all.times) std::copy_n(all.times.get() + piece.first_row, piece.n, all.times.get() + all.n);
    all.n += piece.n;
    all.n_rejected += piece.n_rejected;
    if (all.fault.kind == FaultKind::none) all.fault = piece.fault;
  }
}

template <class T>
std::unique_ptr<T[]> room(bool wanted, int64_t n) {
  return std::unique_ptr<T[]>(wanted ? new T[size_t(std::max<int64_t>(n, 1))] : nullptr);
}

}  // namespace

Records read_records(const char *data, int64_t size, const TextLayout &layout, int threads) {
  const char *end = data + size;
  const bool knows_quotes = layout.separator.size() == 1 && std::memchr(data, '"', size_t(size)) != nullptr;
  const char *begin = layout.has_header ? Reader(data, end, layout, knows_quotes).skip_header(data) : data;
  // A quoted field may hold line ends, so that only unquoted text can be cut at any of them.
  std::vector<Piece> pieces = cut(begin, end, knows_quotes || size < SMALL ? 1 : threads);
  parallel_for(int64_t(pieces.size()), threads, [&](int64_t k, int) {
    Piece &piece = pieces[size_t(k)];
    piece.n_lines = std::count(piece.begin, piece.end, '\n') + 1;
  });
  int64_t n_lines = 0;
  for (Piece &piece : pieces) {
    piece.first_row = n_lines;
    n_lines += piece.n_lines;
  }
  Records all;
  for (int side = 0; side < 2; ++side) all.rows[side] = room<int32_t>(layout.columns[side] >= 0, n_lines);
  all.values = room<float>(layout.columns[int(Part::rating)] >= 0, n_lines);
  all.times = room<int64_t>(layout.columns[int(Part::time)] >= 0, n_lines);
  parallel_for(int64_t(pieces.size()), threads, [&](int64_t k, int) {
    Piece &piece = pieces[size_t(k)];
    const int64_t at = piece.first_row;
    int32_t *rows[2];
    for (int side = 0; side < 2; ++side) rows[side] = all.rows[side] ? all.rows[side].get() + at : nullptr;
    try {
      Reader reader(data, end, layout, knows_quotes);
      reader.read(piece.begin, piece.end, piece.ids, rows, all.values ? all.values.get() + at : nullptr,
                  all.times ? all.times.get() + at : nullptr);
      piece.n = reader.n;
      piece.n_rejected = reader.n_rejected;
      piece.fault = reader.first;
    } catch (const std::bad_alloc &) {
      piece.out_of_memory = true;
    }
  });
  for (const Piece &piece : pieces)
    if (piece.out_of_memory) throw std::bad_alloc();
  join(pieces, layout, all);
  return all;
}

namespace records {
namespace {

// An array for Python, of memory that has an owner.
template <class T>
using Result = nb::ndarray<nb::numpy, T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// A view of memory that the records own, and keep alive.
template <class T>
Result<T> view(nb::handle owner, T *data, int64_t n) {
  return Result<T>(data, {size_t(n)}, owner);
}

int checked(int side) {
  if (side != 0 && side != 1) throw std::invalid_argument("side: 0 for users, 1 for items");
  return side;
}

// The ids as integers, if all are written as integers are and none in quotation marks.
std::optional<Result<int64_t>> integers(const Records &records, int side) {
  const auto &ids = records.ids[checked(side)];
  if (ids.has_quotes) return std::nullopt;
  const int64_t n = ids.table.size();
  auto values = std::make_unique<int64_t[]>(size_t(n));
  for (int64_t row = 0; row < n; ++row) {
    const char *text = ids.table.begin_of(row);
    if (!tastespace::parse_canonical_integer(text, text + ids.table.length_of(row), values[size_t(row)]))
      return std::nullopt;
  }
  int64_t *data = values.release();
  nb::capsule owner(data, [](void *memory) noexcept { delete[] static_cast<int64_t *>(memory); });
  return Result<int64_t>(data, {size_t(n)}, owner);
}

nb::typed<nb::list, nb::str> texts(const Records &records, int side) {
  const auto &table = records.ids[checked(side)].table;
  nb::typed<nb::list, nb::str> all;
  for (int64_t row = 0; row < table.size(); ++row)
    all.append(nb::str(table.begin_of(row), size_t(table.length_of(row))));
  return all;
}

Records read_records(Vector<const uint8_t> data, const std::string &separator, bool has_header, int64_t n_columns,
                     std::optional<int64_t> user, std::optional<int64_t> item, std::optional<int64_t> rating,
                     std::optional<int64_t> time, bool skips_faults, int threads) {
  if (separator.empty()) throw std::invalid_argument("separator: at least one byte");
  tastespace::TextLayout layout;
  layout.separator = separator;
  layout.has_header = has_header;
  layout.skips_faults = skips_faults;
  layout.n_columns = n_columns;
  const std::optional<int64_t> columns[] = {user, item, rating, time};
  for (int part = 0; part < tastespace::N_PARTS; ++part) {
    layout.columns[part] = columns[part].value_or(-1);
    if (layout.columns[part] >= n_columns) throw std::invalid_argument("columns: fewer than n_columns");
  }
  const nb::gil_scoped_release released;
  return tastespace::read_records(reinterpret_cast<const char *>(data.data()), int64_t(data.size()), layout, threads);
}

}  // namespace

void bind(nb::module_ &module) {
  static const char *const kinds[] = {"",         "ragged",      "quote",        "missing",
                                      "too long", "not unicode", "not a number", "not a time"};
  static const char *const parts[] = {"user", "item", "rating", "time"};
  nb::class_<Records>(module, "Records", "Records read from delimited text, and the first one that could not be read.")
      .def_ro("n", &Records::n)
      .def_ro("n_rejected", &Records::n_rejected)
      .def_prop_ro("fault_kind", [](const Records &r) { return kinds[int(r.fault.kind)]; })
      .def_prop_ro("fault_part", [](const Records &r) { return r.fault.part < 0 ? "" : parts[r.fault.part]; })
      .def_prop_ro("fault_offset", [](const Records &r) { return r.fault.offset; })
      .def_prop_ro("fault_n_fields", [](const Records &r) { return r.fault.n_fields; })
      .def_prop_ro("fault_cell", [](const Records &r) { return nb::bytes(r.fault.cell.data(), r.fault.cell.size()); })
      .def("integers", &integers, nb::arg("side"))
      .def("texts", &texts, nb::arg("side"))
      .def(
          "rows",
          [](nb::pointer_and_handle<Records> self, int side) {
            return view(self.h, self.p->rows[checked(side)].get(), self.p->rows[side] ? self.p->n : 0);
          },
          nb::arg("side"))
      .def("values",
           [](nb::pointer_and_handle<Records> self) {
             return view(self.h, self.p->values.get(), self.p->values ? self.p->n : 0);
           })
      .def("times", [](nb::pointer_and_handle<Records> self) {
        return view(self.h, self.p->times.get(), self.p->times ? self.p->n : 0);
      });
  module.def("read_records", &read_records, nb::arg("data"), nb::arg("separator"), nb::kw_only(), nb::arg("has_header"),
             nb::arg("n_columns"), nb::arg("user") = nb::none(), nb::arg("item") = nb::none(),
             nb::arg("rating") = nb::none(), nb::arg("time") = nb::none(), nb::arg("skips_faults") = false,
             nb::arg("threads") = 1);
}

}  // namespace records
}  // namespace tastespace
