// Two passes. The first collects rows: one for each label set, with the values of the relevant fields. Exporters write
// the same label sets in the same order in every family, so the row after the last one is the first guess; labels are
// parsed only if the guess is wrong. The second pass combines rows into devices.
#include "dcgm_page.hpp"

#include "qm/catalog/mig.hpp"
#include "qm/model/resources.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

namespace qm::agent {
namespace {

enum Field : std::uint8_t {
  kGpuUtil,
  kEngineActive,
  kSmActive,
  kFbUsed,
  kFbFree,
  kTemperature,
  kPower,
  kEnergy,
  kXid,
  kRecoveryAction,
  kDoubleBitErrors,
  kClocksEventReasons,
  kFan,
  kFields,
};
using Values = std::array<double, kFields>;

struct Name {
  std::string_view name;
  Field field;
};
constexpr Name kNames[] = {
    {"DCGM_FI_DEV_GPU_UTIL", kGpuUtil},
    {"DCGM_FI_DEV_GPU_UTIL_RATIO", kGpuUtil},
    {"dcgm_gpu_utilization", kGpuUtil},
    {"DCGM_FI_PROF_GR_ENGINE_ACTIVE", kEngineActive},
    {"DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", kEngineActive},
    {"dcgm_fi_prof_gr_engine_active", kEngineActive},
    {"DCGM_FI_PROF_SM_ACTIVE", kSmActive},
    {"DCGM_FI_PROF_SM_UTIL_RATIO", kSmActive},
    {"dcgm_fi_prof_sm_active", kSmActive},
    {"DCGM_FI_DEV_FB_USED", kFbUsed},
    {"dcgm_fb_used", kFbUsed},
    {"DCGM_FI_DEV_FB_FREE", kFbFree},
    {"dcgm_fb_free", kFbFree},
    {"DCGM_FI_DEV_GPU_TEMP", kTemperature},
    {"DCGM_FI_DEV_GPU_TEMP_CELSIUS", kTemperature},
    {"dcgm_gpu_temp", kTemperature},
    {"DCGM_FI_DEV_POWER_USAGE", kPower},
    {"DCGM_FI_DEV_BOARD_POWER_WATTS", kPower},
    {"dcgm_power_usage", kPower},
    {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", kEnergy},
    {"dcgm_total_energy_consumption", kEnergy},
    {"DCGM_FI_DEV_XID_ERRORS", kXid},
    {"DCGM_FI_DEV_XID_ERROR", kXid},
    {"dcgm_xid_errors", kXid},
    {"DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", kRecoveryAction},
    {"DCGM_FI_DEV_GPU_RECOVERY_ACTION", kRecoveryAction},
    {"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", kDoubleBitErrors},
    {"dcgm_ecc_dbe_volatile_total", kDoubleBitErrors},
    {"DCGM_FI_DEV_CLOCKS_EVENT_REASONS", kClocksEventReasons},
    {"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", kClocksEventReasons},
    {"DCGM_FI_DEV_FAN_SPEED", kFan},
};

std::optional<Field> field_of(std::string_view name) {
  for (const auto& known : kNames) {
    if (known.name == name) return known.field;
  }
  return std::nullopt;
}

/// One label set; the views point into the page, still escaped.
struct Row {
  std::string_view text;  // with both braces
  std::int32_t gpu = -1;
  bool sampled = false;  // at least one complete line has it
  std::string_view uuid, model, instance, profile, ns, pod, container;
  Values values;
};

std::string unescaped(std::string_view raw) {
  std::string out;
  out.reserve(raw.size());
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\' || i + 1 == raw.size()) {
      out += raw[i];
    } else {
      ++i;
      out += raw[i] == 'n' ? '\n' : raw[i];
    }
  }
  return out;
}

bool name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == ':';
}

void skip_blanks(std::string_view text, std::size_t& at) {
  while (at < text.size() && (text[at] == ' ' || text[at] == '\t')) ++at;
}

std::string_view name_at(std::string_view text, std::size_t& at) {
  const std::size_t from = at;
  while (at < text.size() && name_char(text[at])) ++at;
  return text.substr(from, at - from);
}

std::int32_t index_of(std::string_view digits) {
  std::int32_t index = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  return error == std::errc() && end == digits.data() + digits.size() && index >= 0 && index < 1024 ? index : -1;
}

void set_label(Row& row, std::string_view name, std::string_view value) {
  if (name == "gpu") {
    row.gpu = index_of(value);
  } else if (name == "device" && row.gpu < 0 && value.starts_with("nvidia")) {
    row.gpu = index_of(value.substr(6));
  } else if (name == "UUID" || name == "uuid") {
    row.uuid = value;
  } else if (name == "modelName") {
    row.model = value;
  } else if (name == "GPU_I_ID") {
    row.instance = value;
  } else if (name == "GPU_I_PROFILE") {
    row.profile = value;
  } else if (name == "namespace" || name == "pod_namespace") {
    row.ns = value;
  } else if (name == "pod" || name == "pod_name") {
    row.pod = value;
  } else if (name == "container" || name == "container_name") {
    row.container = value;
  }
}

/// Parses `{a="b",...}` at `at`; false if it is malformed. A comma before the brace and blanks are allowed.
bool read_labels(std::string_view line, std::size_t& at, Row& row) {
  const std::size_t from = at++;
  while (true) {
    skip_blanks(line, at);
    if (at < line.size() && line[at] == '}') break;
    const auto name = name_at(line, at);
    skip_blanks(line, at);
    if (name.empty() || at >= line.size() || line[at] != '=') return false;
    ++at;
    skip_blanks(line, at);
    if (at >= line.size() || line[at] != '"') return false;
    const std::size_t value = ++at;
    while (at < line.size() && line[at] != '"') at += line[at] == '\\' ? 2 : 1;
    if (at >= line.size()) return false;
    set_label(row, name, line.substr(value, at - value));
    ++at;
    skip_blanks(line, at);
    if (at < line.size() && line[at] == ',') {
      ++at;
    } else if (at >= line.size() || line[at] != '}') {
      return false;
    }
  }
  ++at;
  row.text = line.substr(from, at - from);
  return true;
}

/// The number and an optional timestamp up to the end of the line.
std::optional<double> read_value(std::string_view line, std::size_t at) {
  skip_blanks(line, at);
  if (at < line.size() && line[at] == '+') ++at;
  double value = 0;
  const auto [end, error] = std::from_chars(line.data() + at, line.data() + line.size(), value);
  if (error != std::errc()) return std::nullopt;
  at = static_cast<std::size_t>(end - line.data());
  const std::size_t after = at;
  skip_blanks(line, at);
  if (at == line.size()) return value;
  std::int64_t stamp = 0;
  const auto [last, bad] = std::from_chars(line.data() + at, line.data() + line.size(), stamp);
  if (at == after || bad != std::errc()) return std::nullopt;
  at = static_cast<std::size_t>(last - line.data());
  skip_blanks(line, at);
  return at == line.size() ? std::optional(value) : std::nullopt;
}

/// DCGM's sentinels for "no value": four of each width, from 2^31 - 16, 2^63 - 16 and 2^47 upwards. As a double the
/// second four are 2^63.
bool blank(double value) {
  return !std::isfinite(value) || (value >= 2147483632.0 && value <= 2147483635.0) || value >= 9223372036854775792.0 ||
         (value >= 140737488355328.0 && value <= 140737488355331.0);
}

class Rows {
 public:
  explicit Rows(DcgmPage& page) : page_(page) {}
  void take(std::string_view line) {
    std::size_t at = 0;
    const auto name = name_at(line, at);
    if (name.empty()) {
      ++page_.bad_lines;
      return;
    }
    if (name != family_) {
      family_ = name;
      field_ = field_of(name);
      guess_ = 0;
    }
    const auto row = row_at(line, at);
    const auto value = row ? read_value(line, at) : std::nullopt;
    if (!value) {
      ++page_.bad_lines;
      return;
    }
    ++page_.samples;
    rows_[*row].sampled = true;
    if (blank(*value)) {
      ++page_.blanks;
    } else if (field_) {
      rows_[*row].values[*field_] = *value;
    }
  }
  [[nodiscard]] const std::vector<Row>& all() const { return rows_; }

 private:
  std::optional<std::size_t> row_at(std::string_view line, std::size_t& at) {
    if (guess_ < rows_.size() && line.substr(at).starts_with(rows_[guess_].text) && !rows_[guess_].text.empty()) {
      at += rows_[guess_].text.size();
      return guess_++;
    }
    Row row;
    row.values.fill(DeviceReading::kNone);
    if (at < line.size() && line[at] == '{' && !read_labels(line, at, row)) return std::nullopt;
    const auto [known, fresh] = by_text_.try_emplace(row.text, rows_.size());
    if (fresh) rows_.push_back(row);
    guess_ = known->second + 1;
    return known->second;
  }

  DcgmPage& page_;
  std::vector<Row> rows_;
  std::unordered_map<std::string_view, std::size_t> by_text_;
  std::string_view family_;
  std::optional<Field> field_;
  std::size_t guess_ = 0;
};

/// A whole GPU (empty id) or one MIG instance of it: the value of its own row, else the largest of the rows of its
/// pods.
struct Part {
  std::string_view profile;
  Values own, of_pods;
  Part() { own.fill(DeviceReading::kNone), of_pods.fill(DeviceReading::kNone); }
  void take(const Row& row) {
    if (profile.empty()) profile = row.profile;
    Values& values = row.pod.empty() ? own : of_pods;
    for (std::size_t f = 0; f < kFields; ++f) values[f] = std::fmax(values[f], row.values[f]);
  }
  [[nodiscard]] double value(Field f) const { return std::isnan(own[f]) ? of_pods[f] : own[f]; }
  [[nodiscard]] double slices() const { return compute_slices(profile); }
};
using Parts = std::map<std::string_view, Part>;

double most(const Parts& parts, Field f) {
  double value = DeviceReading::kNone;
  for (const auto& [id, part] : parts) value = std::fmax(value, part.value(f));
  return value;
}

/// The sum over the instances, each weighted by its part of `slices` compute slices, 0 = unweighted; the whole GPU's
/// own value if it has one. NaN if an instance has no value: a missing value is not zero.
double total(const Parts& parts, Field f, std::int32_t slices = 0) {
  if (const auto whole = parts.find(""); whole != parts.end() && !std::isnan(whole->second.value(f)))
    return whole->second.value(f);
  double sum = DeviceReading::kNone;
  for (const auto& [id, part] : parts) {
    if (id.empty()) continue;
    const double value = part.value(f);
    if (std::isnan(value)) return value;
    sum = (std::isnan(sum) ? 0 : sum) + value * (slices > 0 ? part.slices() / slices : 1);
  }
  return sum;
}

/// The thousandths of the GPU of each instance.
std::map<std::string_view, std::int32_t> shares_of(const Parts& parts, std::int32_t slices) {
  std::vector<std::string_view> ids;
  std::vector<std::string> profiles;
  for (const auto& [id, part] : parts) {
    if (part.profile.empty()) continue;
    ids.push_back(id);
    profiles.emplace_back(part.profile);
  }
  const auto milli = mig_shares(profiles, slices);
  std::map<std::string_view, std::int32_t> out;
  for (std::size_t i = 0; i < ids.size(); ++i) out.emplace(ids[i], milli[i]);
  return out;
}

double share(double value) { return std::isnan(value) ? value : std::clamp(value, 0.0, 1.0); }

}  // namespace

bool DcgmPage::labelled() const {
  return std::any_of(devices.begin(), devices.end(), [](const auto& d) { return !d.holders.empty(); });
}

std::int32_t compute_slices_of_model(std::string_view model) {
  std::string product(model);
  std::ranges::replace(product, ' ', '-');  // as nvidia.com/gpu.product is written
  const auto* known = catalog::mig::model_of(product);
  return known == nullptr ? 7 : catalog::mig::geometry_of(known->family).compute_slices;
}

DcgmPage parse_dcgm_page(std::string_view text) {
  DcgmPage page;
  Rows rows(page);
  while (!text.empty()) {
    const auto end = text.find('\n');
    auto line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    std::size_t at = 0;
    skip_blanks(line, at);
    line.remove_prefix(at);
    if (!line.empty() && line[0] != '#') rows.take(line);
  }

  struct DeviceRows {
    std::string_view uuid, model;
    Parts parts;
    std::set<std::pair<std::string_view, DeviceReading::Holder>> holders;  // with the instance
  };
  std::map<std::int32_t, DeviceRows> devices;
  for (const Row& row : rows.all()) {
    if (row.gpu < 0 || !row.sampled) continue;
    DeviceRows& device = devices[row.gpu];
    if (device.uuid.empty()) device.uuid = row.uuid;
    if (device.model.empty()) device.model = row.model;
    device.parts[row.instance].take(row);
    if (!row.pod.empty()) {
      device.holders.emplace(row.instance, DeviceReading::Holder{unescaped(row.ns), unescaped(row.pod),
                                                                 unescaped(row.container), unescaped(row.profile)});
    }
  }
  for (const auto& [index, device] : devices) {
    DeviceReading& out = page.devices.emplace_back();
    out.index = index;
    out.uuid = unescaped(device.uuid);
    out.model = unescaped(device.model);
    const std::int32_t slices = compute_slices_of_model(out.model);
    const double percent = most(device.parts, kGpuUtil);
    out.utilization = share(std::isnan(percent) ? total(device.parts, kEngineActive, slices) : percent / 100);
    out.sm_active = share(total(device.parts, kSmActive, slices));
    out.fb_used_mib = total(device.parts, kFbUsed);
    out.fb_free_mib = total(device.parts, kFbFree);
    out.temperature_c = most(device.parts, kTemperature);
    out.power_watts = most(device.parts, kPower);
    out.energy_mj = most(device.parts, kEnergy);
    out.xid = most(device.parts, kXid);
    out.recovery_action = most(device.parts, kRecoveryAction);
    out.double_bit_errors = most(device.parts, kDoubleBitErrors);
    out.clocks_event_reasons = most(device.parts, kClocksEventReasons);
    out.fan_percent = most(device.parts, kFan);
    const auto shares = shares_of(device.parts, slices);
    for (const auto& [instance, holder] : device.holders) {
      out.holders.push_back(holder);
      if (const auto share = shares.find(instance); share != shares.end()) out.holders.back().milli = share->second;
    }
    std::ranges::sort(out.holders);
  }
  return page;
}

}  // namespace qm::agent
