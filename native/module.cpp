// The Python module tastespace._native: arrays in, the caller's arrays filled, the GIL released.
#include <algorithm>
#include <stdexcept>

#include "arguments.hpp"
#include "machine.hpp"

namespace tastespace {

bool ArrayArgument::take(nb::handle from, uint32_t flags, nb::detail::cleanup_list *cleanup, nb::dlpack::dtype type,
                         int dimensions, bool is_read_only) noexcept {
  const int64_t any[] = {-1, -1, -1, -1};
  nb::detail::ndarray_config wanted{nb::detail::ndarray_config_t<int, nb::numpy, nb::c_contig, nb::device::cpu>()};
  wanted.dtype = type;
  wanted.ndim = dimensions;
  wanted.shape = any;
  wanted.ro = is_read_only;
  handle_ =
      NB_CALL(ndarray_import)(NB_CTX_C(cleanup), from.ptr(), &wanted, flags & nb::detail::cast_flags::convert, cleanup);
  if (!handle_) return false;
  const nb::dlpack::dltensor &tensor = *NB_CALL(ndarray_inc_ref)(handle_);
  data = static_cast<char *>(tensor.data) + tensor.byte_offset;
  shape = tensor.shape;
  return true;
}

ArrayArgument::~ArrayArgument() {
  if (handle_) NB_CALL(ndarray_dec_ref)(handle_);
}

void refuse(const char *what) { throw std::invalid_argument(what); }

// A plain reduction, so that it vectorises and costs nothing beside the work.
bool within(const int32_t *values, size_t n, int64_t low, int64_t high) {
  int32_t least = INT32_MAX, most = INT32_MIN;
  for (size_t k = 0; k < n; ++k) {
    least = std::min(least, values[k]);
    most = std::max(most, values[k]);
  }
  return n == 0 || (least >= low && most < high);
}

void require_offsets(const Vector<const int64_t> &offsets, size_t n_rows, size_t n) {
  const int64_t *at = offsets.data();
  require(offsets.size() == n_rows + 1, "offsets: one more than rows");
  require(at[0] == 0 && at[n_rows] == int64_t(n), "offsets: from 0 to the number of ratings");
  for (size_t row = 0; row < n_rows; ++row) require(at[row] <= at[row + 1], "offsets: ascending");
}

void require_excluded(const OptionalVector<const int64_t> &offsets, const OptionalVector<const int32_t> &excluded,
                      int64_t n_queries) {
  require(offsets.has_value() == excluded.has_value(), "excluded: offsets and rows together");
  if (!offsets) return;
  const int64_t *at = offsets->data();
  require(int64_t(offsets->size()) == n_queries + 1 && at[0] >= 0 && at[n_queries] <= int64_t(excluded->size()),
          "excluded_offsets: one more than queries, within excluded");
  for (int64_t q = 0; q < n_queries; ++q) require(at[q] <= at[q + 1], "excluded_offsets: ascending");
}

// Every family binds its own functions.
#define TS_BINDINGS(X) \
  X(rows)              \
  X(scores)            \
  X(topn)              \
  X(sparse)            \
  X(beliefs)           \
  X(descent)           \
  X(variational)       \
  X(implicit)          \
  X(latent)            \
  X(records)           \
  X(sphere)            \
  X(trees)             \
  X(neighbours)
#define TS_DECLARE(family)        \
  namespace family {              \
  void bind(nb::module_ &module); \
  }
TS_BINDINGS(TS_DECLARE)
#undef TS_DECLARE

}  // namespace tastespace

NB_MODULE(_native, module) {
  module.doc() = "The compiled kernels of tastespace.";
  module.def("instruction_set", [] { return tastespace::table().name; }, "The instruction set in use.");
  module.attr("SCAN_PANEL") = tastespace::scan_panel;
#define TS_BIND(family) tastespace::family::bind(module);
  TS_BINDINGS(TS_BIND)
#undef TS_BIND
}
