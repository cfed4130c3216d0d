// The Python module tastespace._native: arrays in, the caller's arrays filled, the GIL released.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

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
  const bool may_convert = is_read_only && (flags & nb::detail::cast_flags::convert);
  handle_ = NB_CALL(ndarray_import)(NB_CTX_C(cleanup), from.ptr(), &wanted, may_convert, cleanup);
  if (!handle_) return false;
  const nb::dlpack::dltensor &tensor = *NB_CALL(ndarray_inc_ref)(handle_);
  data = static_cast<char *>(tensor.data) + tensor.byte_offset;
  shape = tensor.shape;
  return true;
}

ArrayArgument::~ArrayArgument() {
  if (handle_) NB_CALL(ndarray_dec_ref)(handle_);
}

namespace {

// A function of the module: the casters of its arguments, and how to call it.
struct Function {
  const FunctionType &type;
  AnyFunction function;
  std::string signature;
  std::vector<uint32_t> flags;  // an argument: whether it may be None
};

constexpr size_t most_arguments = 32;
constexpr size_t largest_caster = 64;

// The casters of one call, as many as have been constructed.
struct Casters {
  alignas(std::max_align_t) std::byte memory[most_arguments][largest_caster];
  void *at[most_arguments];
  const FunctionType &type;
  size_t n = 0;

  explicit Casters(const FunctionType &type) : type(type) {}
  Casters(const Casters &) = delete;
  ~Casters() {
    while (n > 0) {
      --n;
      type.arguments[n]->destroy(at[n]);
    }
  }
};

PyObject *call(void *capture, PyObject **arguments, uint32_t flags, nb::detail::cleanup_list *cleanup) {
  using nb::detail::cast_flags;
  const Function &function = **static_cast<const Function *const *>(capture);
  flags &= ~uint32_t(cast_flags::construct | cast_flags::trusted);
  Casters casters(function.type);
  for (size_t i = 0; i < function.type.n_arguments; ++i) {
    casters.at[i] = casters.memory[i];
    casters.n = i + 1;
    if (!function.type.arguments[i]->load(casters.at[i], arguments[i], flags | function.flags[i], cleanup))
      return NB_NEXT_OVERLOAD;
  }
  return function.type.call(function.function, casters.at, cleanup).ptr();
}

nb::object default_of(const Argument &argument) {
  switch (argument.kind) {
    case Argument::Default::missing:
      return {};
    case Argument::Default::none:
      return nb::none();
    case Argument::Default::truth:
      return nb::bool_(argument.integer != 0);
    case Argument::Default::integer:
      return nb::int_(argument.integer);
    case Argument::Default::real:
      return nb::float_(argument.real);
  }
  return {};
}

}  // namespace

void define(nb::module_ &module, const char *name, const FunctionType &type, AnyFunction function,
            std::initializer_list<Argument> arguments, const char *doc) {
  using nb::detail::cast_flags;
  using nb::detail::func_flags;
  static std::vector<std::unique_ptr<Function>> functions;  // nanobind keeps pointers to them
  functions.push_back(std::make_unique<Function>(Function{type, function, "(", {}}));
  Function &own = *functions.back();

  nb::detail::func_data_init<most_arguments> made{};
  std::vector<nb::object> defaults;
  size_t n_positional = type.n_arguments, n = 0;
  for (const Argument &argument : arguments) {
    if (!argument.name) {
      n_positional = n;
      continue;
    }
    const ArgumentType &its = *type.arguments[n];
    if (its.size > largest_caster || n == most_arguments) throw std::logic_error(name);
    own.signature += std::string(n > 0 ? ", {" : "{") + its.name + "}";
    const bool may_be_none = its.accepts_none || argument.kind == Argument::Default::none;
    const uint32_t accepts_none = may_be_none ? uint32_t(cast_flags::accepts_none) : 0;
    own.flags.push_back(accepts_none);
    defaults.push_back(default_of(argument));
    made.args[n++] = {argument.name, nullptr, defaults.back().ptr(), accepts_none, 0};
  }
  if (n != type.n_arguments) throw std::logic_error(name);
  own.signature += std::string(") -> ") + type.result;

  const std::type_info *no_types[] = {nullptr};
  made.capture[0] = &own;
  made.impl = call;
  made.descr = own.signature.c_str();
  made.descr_types = no_types;
  made.flags = NB_ABI_MINOR_TAG | uint32_t(func_flags::has_args) | uint32_t(func_flags::has_name) |
               uint32_t(func_flags::has_scope) | uint32_t(func_flags::has_doc);
  made.nargs = uint16_t(n);
  made.nargs_pos = uint16_t(n_positional);
  made.name = name;
  made.doc = doc;
  made.scope = module.ptr();
  NB_CALL(nb_func_new)(NB_CTX, &made);
}

void refuse(const char *what) { throw std::invalid_argument(what); }

// A plain reduction, which vectorises and costs nothing compared with the work.
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
#define TS_DECLARE_BINDING(family) \
  namespace family {               \
  void bind(nb::module_ &module);  \
  }
TS_BINDINGS(TS_DECLARE_BINDING)

}  // namespace tastespace

NB_MODULE(_native, module) {
  module.doc() = "The compiled kernels of tastespace.";
  module.def("instruction_set", [] { return tastespace::table().name; }, "The instruction set in use.");
  module.attr("SCAN_PANEL") = tastespace::scan_panel;
#define TS_BIND(family) tastespace::family::bind(module);
  TS_BINDINGS(TS_BIND)
}
