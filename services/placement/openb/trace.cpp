#include "trace.hpp"

#include "qm/base/parse.hpp"
#include "qm/base/unpacked.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>

namespace qm::placement::openb {
namespace {

constexpr std::int64_t kMebi = 1 << 20;
constexpr std::int32_t kPodsANode = 1001;  // limit of the protocol

/// The lines of a CSV file in order, by the names of their columns.
class Rows {
 public:
  static Result<Rows> read(const std::string& path, const std::vector<std::string>& needed) {
    Rows out;
    out.path_ = path;
    QM_ASSIGN(out.text_, read_unpacked(path, "name a CSV file of the trace, plain or gzip"));
    std::string_view head;
    if (!out.next_line(head)) return fail({Code::kInvalid, path + ":1: the file is empty", path, "name a CSV file"});
    const auto names = split(head, ',');
    for (std::size_t i = 0; i < names.size(); ++i) out.column_[std::string(names[i])] = i;
    for (const auto& name : needed) {
      if (!out.column_.contains(name)) {
        return fail({Code::kInvalid, fmt::format("{}:1: there is no column {}", path, name), name,
                     "the first line must have the column names, separated by commas"});
      }
    }
    return out;
  }
  bool next() {
    std::string_view line;
    if (!next_line(line)) return false;
    fields_ = split(line, ',');
    return true;
  }
  [[nodiscard]] std::string_view text(const std::string& name) const {
    const auto found = column_.find(name);
    return found == column_.end() || found->second >= fields_.size() ? std::string_view() : fields_[found->second];
  }
  Result<std::int64_t> number(const std::string& name, std::int64_t least, std::int64_t most) const {
    const auto field = text(name);
    const auto value = whole_number(field);
    if (!value || *value < least || *value > most) {
      return fail(wrong(name, fmt::format("give a whole number from {} to {}", least, most)));
    }
    return *value;
  }
  [[nodiscard]] Error wrong(const std::string& name, std::string remedy) const {
    return {Code::kInvalid, fmt::format("{}:{}: {} cannot be \"{}\"", path_, line_, name, text(name)), name,
            std::move(remedy)};
  }

 private:
  bool next_line(std::string_view& line) {
    while (at_ < text_.size()) {
      const auto end = std::min(text_.find('\n', at_), text_.size());
      line = std::string_view(text_).substr(at_, end - at_);
      at_ = end + 1;
      ++line_;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.empty()) return true;
    }
    return false;
  }
  std::string path_, text_;
  std::size_t at_ = 0, line_ = 0;
  std::map<std::string, std::size_t> column_;
  std::vector<std::string_view> fields_;
};

constexpr std::int64_t kMost = 1'000'000'000;

}  // namespace

Result<Trace> read_trace(const std::string& nodes, const std::string& pods) {
  Trace out;
  std::map<std::string, std::uint8_t, std::less<>> number_of;
  const auto model = [&](std::string_view name) -> std::optional<std::uint8_t> {
    const auto [known, added] = number_of.try_emplace(std::string(name), static_cast<std::uint8_t>(out.models.size()));
    if (added) out.models.emplace_back(name);
    return known->second < pack::kMaxModels ? std::optional(known->second) : std::nullopt;
  };
  const std::string too_many = fmt::format("name no more than {} models", pack::kMaxModels);

  std::vector<pack::NodeState> types;
  QM_ASSIGN(auto row, Rows::read(nodes, {"cpu_milli", "memory_mib", "gpu", "model"}));
  while (row.next()) {
    pack::NodeState node;
    QM_ASSIGN(node.cpu_milli, row.number("cpu_milli", 0, kMost));
    QM_ASSIGN(const auto memory, row.number("memory_mib", 0, kMost));
    QM_ASSIGN(const auto gpus, row.number("gpu", 0, pack::kMaxDevices));
    const auto type = model(row.text("model"));
    if (!type) return fail(row.wrong("model", too_many));
    node.memory_bytes = memory * kMebi;
    node.pods = kPodsANode;
    node.gpus = static_cast<std::uint8_t>(gpus);
    node.model = *type;
    std::fill_n(node.free.begin(), gpus, std::uint16_t{pack::kDevice});
    const auto made = std::ranges::find(types, node);
    node.type = static_cast<std::uint8_t>(made - types.begin());
    if (made == types.end()) {
      if (types.size() > std::numeric_limits<std::uint8_t>::max()) {
        return fail(row.wrong("cpu_milli", "name no more than 256 types of nodes"));
      }
      types.push_back(node);
      types.back().type = 0;
    }
    out.nodes.push_back(node);
  }

  QM_ASSIGN(row, Rows::read(pods, {"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"}));
  std::vector<std::pair<std::string, pack::PodClass>> named;
  // CPU, milli of a device, devices, models as spelled. Among classes of equal frequency the
  // largest comes first, which decides where the list of typical classes ends.
  using Spelled = std::tuple<std::int64_t, std::int32_t, std::int32_t, std::string>;
  std::map<Spelled, pack::Demand, std::greater<>> asked;
  while (row.next()) {
    pack::PodClass pod;
    QM_ASSIGN(pod.cpu_milli, row.number("cpu_milli", 0, kMost));
    QM_ASSIGN(const auto memory, row.number("memory_mib", 0, kMost));
    QM_ASSIGN(const auto gpus, row.number("num_gpu", 0, pack::kMaxDevices));
    QM_ASSIGN(const auto milli, row.number("gpu_milli", 0, pack::kDevice));
    pod.memory_bytes = memory * kMebi;
    pod.gpus = static_cast<std::int32_t>(gpus);
    if (gpus > 0) {
      if (milli < 1 || (gpus > 1 && milli < pack::kDevice)) {
        return fail(row.wrong("gpu_milli", "give 1 to 1000 for one device, and 1000 for several"));
      }
      pod.gpu_milli = static_cast<std::int32_t>(milli);
      if (const auto spec = row.text("gpu_spec"); !spec.empty()) {
        pod.models = 0;
        for (const auto name : split(spec, '|')) {
          const auto type = model(name);
          if (!type) return fail(row.wrong("gpu_spec", too_many));
          pod.models |= pack::Models{1} << *type;
        }
      }
    }
    named.emplace_back(row.text("name"), pod);
    auto& alike = asked[{pod.cpu_milli, gpus > 0 ? pod.gpu_milli : 0, pod.gpus, std::string(row.text("gpu_spec"))}];
    alike.pod = pod;
    alike.pod.memory_bytes = 0;
    ++alike.weight;
  }
  const auto asks = [](const auto& one) { return one.second.gpus > 0; };
  if (std::ranges::none_of(named, asks) ||
      std::ranges::none_of(out.nodes, [](const auto& one) { return one.gpus > 0; })) {
    return fail({Code::kInvalid, fmt::format("{} or {} has no GPUs", nodes, pods), "",
                 "name nodes with GPUs and pods that request some: GPU utilization is measured"});
  }
  std::ranges::stable_sort(named, {}, [](const auto& one) { return std::string_view(one.first); });
  for (const auto& [name, pod] : named) out.pods.push_back(pod);
  for (const auto& [spelled, alike] : asked) out.mix.push_back(alike);
  return out;
}

}  // namespace qm::placement::openb
