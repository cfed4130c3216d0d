// Gradient descent over blocks of ratings: the schedule and the binding.
#include <algorithm>
#include <vector>

#include "arguments.hpp"
#include "machine.hpp"

namespace tastespace {
namespace {

// Ratings by block: users and items are each split into n_parts parts, and block a * n_parts + b has the ratings of
// users of part a and items of part b. In stage s the blocks (a, (a + s) mod n_parts) share no row: any number of
// threads may take them, and the result is that of one thread.
struct DescentBlocks {
  int64_t n_parts = 0;
  const int64_t *offsets = nullptr;  // n_parts^2 + 1
  const int32_t *stages = nullptr;   // n_parts: the order of the stages
  int64_t batch = 0, n_batches = 1;  // which share of each block is visited
};

// One side in the caller's layout.
template <class T>
struct DescentSide {
  int64_t n = 0;
  T *factors = nullptr;      // n x n_factors
  T *bias = nullptr;         // n, or null
  const T *pulls = nullptr;  // n: weight of the row's penalty, per rating
  T strength = 0, bias_strength = 0;
  T *slopes = nullptr;       // n x n_factors, if gradients are summed
  T *bias_slopes = nullptr;  // n, or null
};

// Rows from one cache line on.
template <class T>
class LinedRows {
 public:
  LinedRows(int64_t n, int64_t stride) : memory_(size_t(n * stride + line), T(0)) {}
  T *data() {
    const int64_t past = int64_t(reinterpret_cast<uintptr_t>(memory_.data()) / sizeof(T)) % line;
    return memory_.data() + (line - past) % line;
  }

 private:
  static constexpr int64_t line = 64 / int64_t(sizeof(T));
  std::vector<T> memory_;
};

template <class T>
void pad_side(const DescentSide<T> &side, const DescentProblem<T> &problem, int64_t size, int64_t stride, T *rows) {
  const int64_t n_factors = problem.n_factors;
  for (int64_t i = 0; i < side.n; ++i) {
    T *row = rows + i * stride, *tail = row + size;
    std::copy_n(side.factors + i * n_factors, n_factors, row);
    tail[tail_bias] = side.bias ? side.bias[i] : T(0);
    const T pull = side.strength * side.pulls[i], bias_pull = side.bias_strength * side.pulls[i];
    tail[tail_factors] = side.slopes ? pull : 1 - problem.rate * pull;
    tail[tail_bias_share] = side.slopes ? bias_pull : 1 - problem.bias_rate * bias_pull;
  }
}

template <class T>
void unpad_rows(const T *rows, int64_t n, int64_t n_factors, int64_t size, int64_t stride, T *factors, T *bias) {
  for (int64_t i = 0; i < n; ++i) {
    std::copy_n(rows + i * stride, n_factors, factors + i * n_factors);
    if (bias) bias[i] = rows[i * stride + size + tail_bias];
  }
}

template <class T, class Visit>
double visit_blocks(const DescentProblem<T> &problem, const DescentBlocks &blocks, Visit visit, int threads) {
  const int64_t n_parts = blocks.n_parts;
  std::vector<double> squares(size_t(n_parts * n_parts), 0.0);
  for (int64_t stage = 0; stage < n_parts; ++stage)
    parallel_for(n_parts, threads, [&](int64_t part, int) {
      const int64_t block = part * n_parts + (part + blocks.stages[stage]) % n_parts;
      const int64_t first = blocks.offsets[block], n = blocks.offsets[block + 1] - first;
      const int64_t begin = first + n * blocks.batch / blocks.n_batches;
      const int64_t end = first + n * (blocks.batch + 1) / blocks.n_batches;
      squares[size_t(block)] = visit(problem, begin, end);
    });
  double total = 0;
  for (double square : squares) total += square;
  return total;
}

// Steps at every rating of the batch, in place; or, if the sides have slopes, the sums of the gradients.
template <class T>
double descend_ratings(DescentProblem<T> problem, const DescentBlocks &blocks, const DescentSide<T> &users,
                       const DescentSide<T> &items, int threads) {
  const DescentKernel<T> &kernel = descent_kernel<T>();
  const int64_t n_factors = problem.n_factors, size = kernel.padded(n_factors), stride = kernel.stride(n_factors);
  LinedRows<T> user_rows(users.n, stride), item_rows(items.n, stride);
  pad_side(users, problem, size, stride, user_rows.data());
  pad_side(items, problem, size, stride, item_rows.data());
  problem.users = user_rows.data();
  problem.items = item_rows.data();
  if (!users.slopes) {
    const double squares = visit_blocks(problem, blocks, kernel.descend, threads);
    unpad_rows(problem.users, users.n, n_factors, size, stride, users.factors, users.bias);
    unpad_rows(problem.items, items.n, n_factors, size, stride, items.factors, items.bias);
    return squares;
  }
  LinedRows<T> user_slopes(users.n, stride), item_slopes(items.n, stride);
  problem.user_slopes = user_slopes.data();
  problem.item_slopes = item_slopes.data();
  const double squares = visit_blocks(problem, blocks, kernel.add_slopes, threads);
  unpad_rows(problem.user_slopes, users.n, n_factors, size, stride, users.slopes, users.bias_slopes);
  unpad_rows(problem.item_slopes, items.n, n_factors, size, stride, items.slopes, items.bias_slopes);
  return squares;
}

}  // namespace

namespace descent {
namespace {

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
  require(user_rows.size() == n && item_rows.size() == n, "user_rows and item_rows: one per rating");
  require(within(user_rows.data(), n, 0, int64_t(n_users)), "user_rows: rows of users");
  require(within(item_rows.data(), n, 0, int64_t(n_items)), "item_rows: rows of items");
  require(user_bias.has_value() == item_bias.has_value(), "user_bias and item_bias: both or none");
  require(has_size(user_bias, n_users) && has_size(item_bias, n_items), "user_bias and item_bias: one per row");
  require(user_pulls.size() == n_users && item_pulls.size() == n_items, "user_pulls and item_pulls: one per row");
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
  require(has_size(user_bias_slopes, n_users) && has_size(item_bias_slopes, n_items), "bias slopes: one per row");
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
  define(module, "descend_ratings", &descend_ratings<T>,
         {"offsets"_a,
          "user_rows"_a,
          "item_rows"_a,
          "values"_a,
          "stages"_a,
          "users"_a,
          "items"_a,
          by_name_only,
          "user_bias"_a = none,
          "item_bias"_a = none,
          "user_pulls"_a,
          "item_pulls"_a,
          "strengths"_a,
          "offset"_a = T(0),
          "rate"_a = T(0),
          "bias_rate"_a = T(0),
          "is_squashed"_a = false,
          "batch"_a = 0,
          "n_batches"_a = 1,
          "user_slopes"_a = none,
          "item_slopes"_a = none,
          "user_bias_slopes"_a = none,
          "item_bias_slopes"_a = none,
          "threads"_a = 1},
         "Visit the ratings of a batch, block by block: a step against the gradient at each, in place, or, where "
         "there are slopes, the sums of the gradients. Returns the sum of squared errors.");
}

}  // namespace

void bind(nb::module_ &module) {
  bind<float>(module);
  bind<double>(module);
}

}  // namespace descent
}  // namespace tastespace
