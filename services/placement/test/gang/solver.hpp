#pragma once
// The same problem as an integer program for GLPK; it shares only the numbers of the fleet and the
// request with the code under test.
#include "test/gang/gangs.hpp"

#if __has_include(<glpk.h>)
#include <glpk.h>
#define QM_HAS_GLPK 1

namespace qm::placement::gang::testing {

/// Variables: pods of a set on a node, or on a device if the set uses shares; whether a domain is
/// in use; the domain of a group; the number of slices of a set in a domain.
class Solver {
 public:
  enum class Verdict { kOptimal, kInfeasible, kUnknown };
  struct Solved {
    Verdict verdict = Verdict::kUnknown;
    std::int64_t cost = 0;
  };

  /// `levels`: one for each group; all of its pods are in one domain of that level.
  Solver(const World& world, const Request& request, const std::vector<Level>& levels)
      : world_(world), tree_(world.fleet.tree()), program_(glp_create_prob()) {
    glp_term_out(GLP_OFF);
    glp_set_obj_dir(program_, GLP_MIN);
    flatten(request.gang, sets_, groups_);
    domains();
    for (NodeId node = 0; node < world.empty.size(); ++node) {
      if (!request.exclusive || world.fleet.state(node) == world.empty[node]) this->node(node);
    }
    for (std::size_t set = 0; set < sets_.size(); ++set) of_set(set);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (levels[g] > kFleet) of_group(groups_[g], levels[g]);
    }
  }
  ~Solver() { glp_delete_prob(program_); }
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;

  Solved solve(int most_ms) {
    std::vector<int> i{0}, j{0};
    std::vector<double> value{0};
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      for (const auto& [column, factor] : rows_[row]) {
        i.push_back(static_cast<int>(row) + 1);
        j.push_back(column);
        value.push_back(factor);
      }
    }
    glp_load_matrix(program_, static_cast<int>(i.size()) - 1, i.data(), j.data(), value.data());
    glp_iocp how;
    glp_init_iocp(&how);
    how.presolve = GLP_ON;
    how.tm_lim = most_ms;
    how.msg_lev = GLP_MSG_OFF;
    how.mir_cuts = GLP_ON;
    const int end = glp_intopt(program_, &how);
    if (end == GLP_ENOPFS) return {Verdict::kInfeasible, 0};
    if (end != 0) return {};
    const int status = glp_mip_status(program_);
    if (status == GLP_NOFEAS) return {Verdict::kInfeasible, 0};
    if (status != GLP_OPT) return {};
    return {Verdict::kOptimal, static_cast<std::int64_t>(glp_mip_obj_val(program_) + 0.5)};
  }

 private:
  using Row = std::vector<std::pair<int, double>>;

  int column(double cost, double most, bool whole = true) {
    const int number = glp_add_cols(program_, 1);
    glp_set_obj_coef(program_, number, cost);
    glp_set_col_kind(program_, number, whole ? GLP_IV : GLP_CV);
    glp_set_col_bnds(program_, number, most > 0 ? GLP_DB : GLP_FX, 0, most);
    return number;
  }
  /// The row's sum is between `low` and `high`.
  void row(Row row, double low, double high) {
    const int number = glp_add_rows(program_, 1);
    const int kind = low == high ? GLP_FX : low < -1e17 ? GLP_UP : GLP_DB;
    glp_set_row_bnds(program_, number, kind, low, high);
    rows_.push_back(std::move(row));
  }
  void at_most(Row terms, double high) { row(std::move(terms), -1e18, high); }

  void domains() {
    for (Level level = 1; level <= tree_.depth(); ++level) {
      for (std::uint32_t i = 0; i < tree_.size(level); ++i)
        used_[{level, i}] = column(static_cast<double>(usual_weight(tree_, level)), 1);
    }
    for (const auto& [domain, own] : used_) {
      if (domain.level > 1) at_most({{own, 1}, {used_[tree_.above(domain, domain.level - 1)], -1}}, 0);
    }
  }

  void node(NodeId id) {
    const auto& state = world_.fleet.state(id);
    Row cpu, memory, pods, idle;
    std::vector<Row> device(state.gpus);
    for (std::size_t set = 0; set < sets_.size(); ++set) {
      const auto& pod = sets_[set].pod;
      const auto fit = pods_that_fit(state, pod);
      if (fit == 0 || (sets_[set].gates >> world_.fleet.gate(id) & 1U) == 0) continue;
      const auto count = std::min<double>(fit, sets_[set].count);
      std::vector<int> own;
      if (pod.shares()) {
        for (std::size_t d = 0; d < state.gpus; ++d) {
          if (state.free[d] < pod.gpu_milli) continue;
          own.push_back(column(0, std::min<double>(count, state.free[d] / pod.gpu_milli)));
          device[d].emplace_back(own.back(), pod.gpu_milli);
        }
      } else {
        own.push_back(column(0, count));
        if (pod.gpus > 0) idle.emplace_back(own[0], pod.gpus);
      }
      Row in_use;
      for (const int x : own) {
        cpu.emplace_back(x, static_cast<double>(pod.cpu_milli));
        memory.emplace_back(x, static_cast<double>(pod.memory_bytes));
        pods.emplace_back(x, 1);
        in_use.emplace_back(x, 1);
        on_[{set, id}].emplace_back(x);
      }
      in_use.emplace_back(used_[{tree_.depth(), id}], -count);
      at_most(std::move(in_use), 0);
    }
    if (pods.empty()) return;
    at_most(std::move(cpu), static_cast<double>(state.cpu_milli));
    at_most(std::move(memory), static_cast<double>(state.memory_bytes));
    at_most(std::move(pods), state.pods);
    // A device used as a whole is not shared.
    for (std::size_t d = 0; d < state.gpus; ++d) {
      if (state.free[d] == pack::kDevice) {
        const int whole = column(0, 1);
        device[d].emplace_back(whole, pack::kDevice);
        idle.emplace_back(whole, -1);
      }
      if (!device[d].empty()) at_most(std::move(device[d]), state.free[d]);
    }
    if (!idle.empty()) at_most(std::move(idle), 0);
  }

  Row pods_in(std::size_t set, Domain domain) const {
    Row out;
    for (const auto& [key, columns] : on_) {
      if (key.first != set || !tree_.within({tree_.depth(), key.second}, domain)) continue;
      for (const int x : columns) out.emplace_back(x, 1);
    }
    return out;
  }

  void of_set(std::size_t i) {
    const auto& set = sets_[i];
    row(pods_in(i, {}), set.count, set.count);
    if (set.spread.most > 0) {
      for (std::uint32_t d = 0; d < tree_.size(set.spread.level); ++d)
        at_most(pods_in(i, {set.spread.level, d}), set.spread.most);
    }
    if (set.slices.size > 1) {
      for (std::uint32_t d = 0; d < tree_.size(set.slices.level); ++d) {
        auto terms = pods_in(i, {set.slices.level, d});
        terms.emplace_back(column(0, set.count), -set.slices.size);
        row(std::move(terms), 0, 0);
      }
    }
  }

  void of_group(const FlatGroup& group, Level level) {
    Row one;
    for (std::uint32_t d = 0; d < tree_.size(level); ++d) {
      const int chosen = column(0, 1);
      one.emplace_back(chosen, 1);
      for (const auto set : group.sets) {
        const auto i = static_cast<std::size_t>(set);
        auto terms = pods_in(i, {level, d});
        terms.emplace_back(chosen, -sets_[i].count);
        row(std::move(terms), 0, 0);
      }
    }
    row(std::move(one), 1, 1);
  }

  const World& world_;
  const Tree& tree_;
  glp_prob* program_;
  std::vector<PodSet> sets_;
  std::vector<FlatGroup> groups_;
  std::map<Domain, int> used_;
  std::map<std::pair<std::size_t, NodeId>, std::vector<int>> on_;
  std::vector<Row> rows_;
};

}  // namespace qm::placement::gang::testing
#endif
