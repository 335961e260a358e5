// Recommends how pods share GPUs, from a table that compares the methods: recommend sharing.
#include "commands.hpp"
#include "csv.hpp"
#include "print.hpp"
#include "qm/base/json.hpp"
#include "table.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <ostream>

namespace qm::cli {
namespace {

constexpr std::array<const char*, 3> kMethods{"mig", "mps", "time_slicing"};

/// The properties of each method; a file with the same columns replaces it (--table).
constexpr const char* kComparison = R"(dimension,mig,mps,time_slicing
isolation,by hardware: memory and SMs of its own,soft: processes share one context,none
memory,its own part,shared up to a limit for each,shared
overhead,none,low,medium: slices of time rotate
use case,"production of several tenants, promised latency","inference with high throughput","development, tests, batch"
gpu support,"A100, A30, H100, H200, B200",all CUDA GPUs,all CUDA GPUs
configuration complexity,medium: GPUs are reset,low: a daemon,low: the device plugin's configuration
recommended for,multi-tenant isolation,single-tenant throughput,non-production only
)";

/// Dimension -> its value for each of kMethods.
using Comparison = std::vector<std::pair<std::string, std::array<std::string, 3>>>;

Result<Comparison> read_comparison(std::string_view text, const std::string& source) {
  Comparison out;
  std::array<std::size_t, 3> columns{};
  for (int line = 1; !text.empty(); ++line) {
    const auto end = text.find('\n');
    const auto cells = cells_of(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line == 1) {
      for (std::size_t m = 0; m < kMethods.size(); ++m) {
        columns[m] = static_cast<std::size_t>(std::ranges::find(cells, kMethods[m]) - cells.begin());
        if (columns[m] == cells.size())
          return fail({Code::kInvalid, fmt::format("{} has no column {}", source, kMethods[m]), "--table",
                       "the columns are dimension,mig,mps,time_slicing"});
      }
      continue;
    }
    if (cells.size() == 1 && cells[0].empty()) continue;
    auto& row = out.emplace_back(cells[0], std::array<std::string, 3>{});
    for (std::size_t m = 0; m < kMethods.size(); ++m) {
      if (columns[m] >= cells.size())
        return fail({Code::kInvalid, fmt::format("{}:{} has too few cells", source, line), "--table", "fill them"});
      row.second[m] = cells[columns[m]];
    }
  }
  return out;
}

const std::array<std::string, 3>* find(const Comparison& all, std::string_view dimension) {
  const auto row = std::ranges::find(all, dimension, &Comparison::value_type::first);
  return row == all.end() ? nullptr : &row->second;
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return text;
}

/// True if the method runs on GPUs of this model, "NVIDIA-H100-80GB-HBM3" or "H100".
bool runs_on(const std::string& support, const std::string& model) {
  if (model.empty() || lower(support).starts_with("all")) return true;
  for (std::string_view rest = support; !rest.empty();) {
    const auto comma = rest.find(',');
    std::string_view one = rest.substr(0, comma);
    while (one.starts_with(' ')) one.remove_prefix(1);
    if (!one.empty() && lower(model).find(lower(std::string(one))) != std::string::npos) return true;
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  return false;
}

}  // namespace

// The tenants decide: several tenants need isolation (MIG), a single tenant needs throughput (MPS), and non-production
// work can be time-sliced.
Status run_verb(Context& context, const RecommendVerb& verb) {
  const bool own = !context.manifests.empty();
  QM_ASSIGN(const auto table, read_comparison(own ? std::string_view(context.manifests[0].text) : kComparison,
                                              own ? context.manifests[0].source : "the built-in table"));
  const auto* made_for = find(table, "recommended for");
  const auto* support = find(table, "gpu support");
  if (made_for == nullptr || support == nullptr)
    return fail({Code::kInvalid, "the table has no recommendation or no GPU support for the methods", "--table",
                 "add the rows \"recommended for\" and \"gpu support\""});
  const char* requirement = verb.tenants > 1 ? "multi-tenant" : verb.production ? "single-tenant" : "non-production";
  const auto fits =
      std::ranges::find_if(*made_for, [&](const auto& cell) { return lower(cell).starts_with(requirement); });
  if (fits == made_for->end())
    return fail(
        {Code::kNotFound, fmt::format("the table recommends nothing for {}", requirement), "--table", "add it"});
  const auto m = static_cast<std::size_t>(fits - made_for->begin());
  const bool possible = runs_on((*support)[m], verb.gpu_model);
  const std::string method = possible ? kMethods[m] : "none";
  const std::string why = possible ? *fits
                                   : fmt::format("{} is for {}, which {} does not support: use one GPU per tenant",
                                                 kMethods[m], *fits, verb.gpu_model);
  if (context.structured()) {
    Json answer = Json::object({{"method", method}, {"why", why}});
    Json& all = answer.set("comparison");
    for (const auto& [dimension, method_cells] : table) {
      Json& row = all.set(dimension);
      for (std::size_t i = 0; i < kMethods.size(); ++i) row.set(kMethods[i], method_cells[i]);
    }
    print(context, answer);
    return {};
  }
  context.out << fmt::format("{}: {}\n\n", method, printable(why));
  Table out({{"DIMENSION"}, {"MIG"}, {"MPS"}, {"TIME-SLICING"}});
  for (const auto& [dimension, method_cells] : table)
    out.row({printable(dimension), printable(method_cells[0]), printable(method_cells[1]), printable(method_cells[2])});
  context.out << out.text();
  return {};
}

}  // namespace qm::cli
