// The binding of the search in cells: checks of the arguments, release of the interpreter lock, the call.
#include "cells_module.hpp"

#include <vector>

#include "arguments.hpp"
#include "parallel.hpp"
#include "scan.hpp"
#include "tables.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using tastespace::has_size;
using tastespace::Matrix;
using tastespace::OptionalVector;
using tastespace::pointer;
using tastespace::require;
using tastespace::require_excluded;
using tastespace::scan_panel;
using tastespace::Vector;

void search_cells(Vector<const float> centres, Vector<const int64_t> first_panels, Vector<const float> panels,
                  Vector<const int32_t> members, Matrix<const float> queries, int64_t n_items, int64_t probes,
                  Matrix<int32_t> out_items, Matrix<float> out_scores, OptionalVector<const int64_t> excluded_offsets,
                  OptionalVector<const int32_t> excluded, OptionalVector<const uint8_t> allowed, int threads) {
  const int64_t n_queries = int64_t(queries.shape(0));
  tastespace::CellsProblem problem;
  problem.n_dimensions = int64_t(queries.shape(1));
  problem.k = int64_t(out_items.shape(1));
  require(first_panels.size() > 1, "first_panels: one more than cells");
  problem.n_cells = int64_t(first_panels.size()) - 1;
  const int64_t centre_panels = (problem.n_cells + scan_panel - 1) / scan_panel;
  const int64_t n_panels = first_panels.data()[problem.n_cells];
  require(int64_t(centres.size()) == centre_panels * problem.n_dimensions * scan_panel,
          "centres: in panels of the queries' dimension");
  require(first_panels.data()[0] == 0 && n_panels >= 0, "first_panels: from 0");
  for (int64_t cell = 0; cell < problem.n_cells; ++cell)
    require(first_panels.data()[cell] <= first_panels.data()[cell + 1], "first_panels: ascending");
  require(int64_t(panels.size()) == n_panels * problem.n_dimensions * scan_panel,
          "panels: items in panels of the queries' dimension");
  // That members are rows of items is looked at when they are made or read: a search has no time to look at all of
  // them.
  require(int64_t(members.size()) == n_panels * scan_panel, "members: one a place");
  require(probes > 0 && probes <= problem.n_cells, "probes: from 1 to the number of cells");
  require(out_items.shape(0) == size_t(n_queries) && out_scores.shape(0) == size_t(n_queries) &&
              out_scores.shape(1) == size_t(problem.k) && problem.k > 0,
          "out: one row of k a query");
  require(has_size(allowed, size_t(n_items)), "allowed: one an item");
  require_excluded(excluded_offsets, excluded, n_queries);
  problem.probes = probes;
  problem.centres = centres.data();
  problem.first_panels = first_panels.data();
  problem.panels = panels.data();
  problem.members = members.data();
  problem.queries = queries.data();
  problem.excluded_offsets = pointer(excluded_offsets);
  problem.excluded = pointer(excluded);
  problem.allowed = pointer(allowed);
  problem.out_items = out_items.data();
  problem.out_scores = out_scores.data();
  const auto search = tastespace::table().cells.search;
  nb::gil_scoped_release release;
  constexpr int64_t share = 16;
  tastespace::parallel_for((n_queries + share - 1) / share, threads, [&](int64_t task, int) {
    std::vector<float> scores(static_cast<size_t>(probes));
    std::vector<int32_t> cells(static_cast<size_t>(probes));
    tastespace::CellsWorkspace space{scores.data(), cells.data()};
    for (int64_t q = task * share; q < std::min(n_queries, (task + 1) * share); ++q) search(problem, q, space);
  });
}

}  // namespace

void bind_cells(nb::module_ &module) {
  module.def("search_cells", &search_cells, "centres"_a, "first_panels"_a, "panels"_a, "members"_a, "queries"_a,
             "n_items"_a, "probes"_a, "out_items"_a.noconvert(), "out_scores"_a.noconvert(), nb::kw_only(),
             "excluded_offsets"_a = nb::none(), "excluded"_a = nb::none(), "allowed"_a = nb::none(), "threads"_a = 1,
             "The best items of the best cells of each query.");
}
