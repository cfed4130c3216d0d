// The binding of the text reader: bytes in, an object that owns the arrays out.
#include "records_module.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <stdexcept>

#include "numbers.hpp"
#include "records.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using tastespace::Records;
template <class T>
using Array = nb::ndarray<nb::numpy, T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// A view of memory that the records own, and keep alive.
template <class T>
Array<T> view(nb::handle owner, T *data, int64_t n) {
  return Array<T>(data, {size_t(n)}, owner);
}

int checked(int side) {
  if (side != 0 && side != 1) throw std::invalid_argument("side: 0 for users, 1 for items");
  return side;
}

// The ids as integers, if all are written as integers are and none in quotation marks.
std::optional<Array<int64_t>> integers(const Records &records, int side) {
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
  return Array<int64_t>(data, {size_t(n)}, owner);
}

nb::typed<nb::list, nb::str> texts(const Records &records, int side) {
  const auto &table = records.ids[checked(side)].table;
  nb::typed<nb::list, nb::str> all;
  for (int64_t row = 0; row < table.size(); ++row)
    all.append(nb::str(table.begin_of(row), size_t(table.length_of(row))));
  return all;
}

Records read_records(Array<const uint8_t> data, const std::string &separator, bool has_header, int64_t n_columns,
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

void bind_records(nb::module_ &module) {
  static const char *const kinds[] = {"",         "ragged",      "quote",        "missing",
                                      "too long", "not unicode", "not a number", "not a time"};
  static const char *const parts[] = {"user", "item", "rating", "time"};
  nb::class_<Records>(module, "Records", "What was read from delimited text, and the first record that could not be.")
      .def_ro("n", &Records::n)
      .def_ro("n_rejected", &Records::n_rejected)
      .def_prop_ro("fault_kind", [](const Records &r) { return kinds[int(r.fault.kind)]; })
      .def_prop_ro("fault_part", [](const Records &r) { return r.fault.part < 0 ? "" : parts[r.fault.part]; })
      .def_prop_ro("fault_offset", [](const Records &r) { return r.fault.offset; })
      .def_prop_ro("fault_n_fields", [](const Records &r) { return r.fault.n_fields; })
      .def_prop_ro("fault_cell", [](const Records &r) { return nb::bytes(r.fault.cell.data(), r.fault.cell.size()); })
      .def("integers", &integers, "side"_a)
      .def("texts", &texts, "side"_a)
      .def(
          "rows",
          [](nb::pointer_and_handle<Records> self, int side) {
            return view(self.h, self.p->rows[checked(side)].get(), self.p->rows[side] ? self.p->n : 0);
          },
          "side"_a)
      .def("values",
           [](nb::pointer_and_handle<Records> self) {
             return view(self.h, self.p->values.get(), self.p->values ? self.p->n : 0);
           })
      .def("times", [](nb::pointer_and_handle<Records> self) {
        return view(self.h, self.p->times.get(), self.p->times ? self.p->n : 0);
      });
  module.def("read_records", &read_records, "data"_a, "separator"_a, nb::kw_only(), "has_header"_a, "n_columns"_a,
             "user"_a = nb::none(), "item"_a = nb::none(), "rating"_a = nb::none(), "time"_a = nb::none(),
             "skips_faults"_a = false, "threads"_a = 1);
}
