// The binding of mixtures of normals: checks of the arguments, release of the interpreter lock, the loops.
#include "mixtures_module.hpp"

#include "arguments.hpp"
#include "mixtures.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using tastespace::has_size;
using tastespace::Matrix;
using tastespace::NormalMixture;
using tastespace::OptionalMatrix;
using tastespace::pointer;
using tastespace::require;
using tastespace::Vector;

void require_mixtures(const Matrix<const float> &means, const Matrix<const float> &sds,
                      const OptionalMatrix<const float> &weights) {
  require(means.shape(1) > 0, "means: at least one component");
  require(sds.shape(0) == means.shape(0) && sds.shape(1) == means.shape(1), "sds: as many as means");
  require(has_size(weights, means.size()), "weights: as many as means");
}

NormalMixture mixture(const Matrix<const float> &means, const Matrix<const float> &sds, const float *weights,
                      int64_t row) {
  const int64_t n = int64_t(means.shape(1)), at = row * n;
  return {means.data() + at, sds.data() + at, weights ? weights + at : nullptr, n};
}

void mixture_cdf(Matrix<const float> means, Matrix<const float> sds, Matrix<const double> values, Matrix<double> out,
                 OptionalMatrix<const float> weights, bool inclusive) {
  require_mixtures(means, sds, weights);
  const int64_t n = int64_t(means.shape(0)), n_values = int64_t(values.shape(1));
  require(values.shape(0) == size_t(n), "values: one row a mixture");
  require(out.shape(0) == size_t(n) && out.shape(1) == size_t(n_values), "out: one a value");
  const float *shares = pointer(weights);
  nb::gil_scoped_release release;
  for (int64_t row = 0; row < n; ++row) {
    const NormalMixture one = mixture(means, sds, shares, row);
    for (int64_t k = 0; k < n_values; ++k)
      out.data()[row * n_values + k] = one.below(values.data()[row * n_values + k], inclusive);
  }
}

void mixture_quantile(Matrix<const float> means, Matrix<const float> sds, double probability, double standard,
                      Vector<double> out, OptionalMatrix<const float> weights) {
  require_mixtures(means, sds, weights);
  require(probability > 0 && probability < 1, "probability: between 0 and 1");
  require(out.size() == means.shape(0), "out: one a mixture");
  const float *shares = pointer(weights);
  nb::gil_scoped_release release;
  for (int64_t row = 0; row < int64_t(means.shape(0)); ++row)
    out.data()[row] = mixture(means, sds, shares, row).quantile(probability, standard);
}

void mixture_sd(Matrix<const float> means, Matrix<const float> sds, Vector<double> out,
                OptionalMatrix<const float> weights) {
  require_mixtures(means, sds, weights);
  require(out.size() == means.shape(0), "out: one a mixture");
  const float *shares = pointer(weights);
  nb::gil_scoped_release release;
  for (int64_t row = 0; row < int64_t(means.shape(0)); ++row) {
    const NormalMixture one = mixture(means, sds, shares, row);
    out.data()[row] = std::sqrt(one.variance(one.mean()));
  }
}

}  // namespace

void bind_mixtures(nb::module_ &module) {
  module.def("mixture_cdf", &mixture_cdf, "means"_a, "sds"_a, "values"_a, "out"_a.noconvert(), nb::kw_only(),
             "weights"_a = nb::none(), "inclusive"_a = true,
             "The distribution functions of mixtures of normals, each at values of its own.");
  module.def("mixture_sd", &mixture_sd, "means"_a, "sds"_a, "out"_a.noconvert(), nb::kw_only(),
             "weights"_a = nb::none(), "The standard deviations of mixtures of normals.");
  module.def("mixture_quantile", &mixture_quantile, "means"_a, "sds"_a, "probability"_a, "standard"_a,
             "out"_a.noconvert(), nb::kw_only(), "weights"_a = nb::none(),
             "Where mixtures of normals reach a probability, of which `standard` is the standard normal's quantile.");
}
