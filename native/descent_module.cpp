// The binding of gradient descent: checks of the arguments, release of the interpreter lock, the call.
#include "descent_module.hpp"

#include "arguments.hpp"
#include "descent_driver.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using tastespace::has_size;
using tastespace::Matrix;
using tastespace::OptionalMatrix;
using tastespace::OptionalVector;
using tastespace::pointer;
using tastespace::require;
using tastespace::require_offsets;
using tastespace::Vector;
using tastespace::within;

template <class T>
double descend_ratings(Vector<const int64_t> offsets, Vector<const int32_t> user_rows, Vector<const int32_t> item_rows,
                       Vector<const T> values, Vector<const int32_t> stages, Matrix<T> users, Matrix<T> items,
                       OptionalVector<T> user_bias, OptionalVector<T> item_bias, Vector<const T> user_pulls,
                       Vector<const T> item_pulls, Vector<const T> strengths, T offset, T rate, T bias_rate,
                       bool is_squashed, int64_t batch, int64_t n_batches, OptionalMatrix<T> user_slopes,
                       OptionalMatrix<T> item_slopes, OptionalVector<T> user_bias_slopes,
                       OptionalVector<T> item_bias_slopes, int threads) {
  const size_t n_users = users.shape(0), n_items = items.shape(0), n_factors = users.shape(1), n = values.size();
  const size_t n_parts = stages.size();
  require(n_factors > 0 && items.shape(1) == n_factors, "items: as many factors as users");
  require(n_parts > 0 && within(stages.data(), n_parts, 0, int64_t(n_parts)), "stages: an order of the parts");
  require_offsets(offsets, n_parts * n_parts, n);
  require(user_rows.size() == n && item_rows.size() == n, "user_rows and item_rows: one a rating");
  require(within(user_rows.data(), n, 0, int64_t(n_users)), "user_rows: rows of users");
  require(within(item_rows.data(), n, 0, int64_t(n_items)), "item_rows: rows of items");
  require(user_bias.has_value() == item_bias.has_value(), "user_bias and item_bias: both or none");
  require(has_size(user_bias, n_users) && has_size(item_bias, n_items), "user_bias and item_bias: one a row");
  require(user_pulls.size() == n_users && item_pulls.size() == n_items, "user_pulls and item_pulls: one a row");
  require(strengths.size() == 4, "strengths: of users, items, user biases, item biases");
  require(n_batches > 0 && batch >= 0 && batch < n_batches, "batch: below n_batches");
  require(user_slopes.has_value() == item_slopes.has_value(), "user_slopes and item_slopes: both or none");
  const bool sums_up = user_slopes.has_value(), sums_up_biases = sums_up && user_bias.has_value();
  require(user_bias_slopes.has_value() == sums_up_biases && item_bias_slopes.has_value() == sums_up_biases,
          "user_bias_slopes and item_bias_slopes: where there are slopes and biases");
  require(!sums_up || (user_slopes->shape(0) == n_users && user_slopes->shape(1) == n_factors),
          "user_slopes: as users");
  require(!sums_up || (item_slopes->shape(0) == n_items && item_slopes->shape(1) == n_factors),
          "item_slopes: as items");
  require(has_size(user_bias_slopes, n_users) && has_size(item_bias_slopes, n_items), "bias slopes: one a row");
  const T *strength = strengths.data();
  tastespace::DescentSide<T> user_side{int64_t(n_users), users.data(), pointer(user_bias),   user_pulls.data(),
                                       strength[0],      strength[2],  pointer(user_slopes), pointer(user_bias_slopes)};
  tastespace::DescentSide<T> item_side{int64_t(n_items), items.data(), pointer(item_bias),   item_pulls.data(),
                                       strength[1],      strength[3],  pointer(item_slopes), pointer(item_bias_slopes)};
  tastespace::DescentBlocks blocks{int64_t(n_parts), offsets.data(), stages.data(), batch, n_batches};
  tastespace::DescentProblem<T> problem;
  problem.n_factors = int64_t(n_factors);
  problem.user_rows = user_rows.data();
  problem.item_rows = item_rows.data();
  problem.values = values.data();
  problem.offset = offset;
  problem.rate = rate;
  problem.bias_rate = user_bias ? bias_rate : T(0);
  problem.is_squashed = is_squashed;
  nb::gil_scoped_release release;
  return tastespace::descend_ratings(problem, blocks, user_side, item_side, threads);
}

template <class T>
void bind(nb::module_ &module) {
  module.def("descend_ratings", &descend_ratings<T>, "offsets"_a, "user_rows"_a, "item_rows"_a, "values"_a, "stages"_a,
             "users"_a.noconvert(), "items"_a.noconvert(), nb::kw_only(), "user_bias"_a.noconvert() = nb::none(),
             "item_bias"_a.noconvert() = nb::none(), "user_pulls"_a, "item_pulls"_a, "strengths"_a, "offset"_a = T(0),
             "rate"_a = T(0), "bias_rate"_a = T(0), "is_squashed"_a = false, "batch"_a = 0, "n_batches"_a = 1,
             "user_slopes"_a.noconvert() = nb::none(), "item_slopes"_a.noconvert() = nb::none(),
             "user_bias_slopes"_a.noconvert() = nb::none(), "item_bias_slopes"_a.noconvert() = nb::none(),
             "threads"_a = 1,
             "Visit the ratings of a batch, block by block: a step against the gradient at each, in place, or, where "
             "there are slopes, the sums of the gradients. Returns the sum of squared errors.");
}

}  // namespace

void bind_descent(nb::module_ &module) {
  bind<float>(module);
  bind<double>(module);
}
