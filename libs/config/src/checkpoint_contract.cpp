#include "qm/config/checkpoint_contract.hpp"

#include "qm/config/manifest.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace qm::config {
namespace {

constexpr std::string_view kFrequency = "--checkpoint-freq";
/// Signals that a container may catch, and that nothing else sends to it.
constexpr std::array<std::string_view, 4> kSignals{"SIGUSR1", "SIGUSR2", "SIGHUP", "SIGTERM"};
constexpr std::int64_t kMostRanks = 100'000;

tl::unexpected<Error> refused(std::string_view member, std::string_view value, std::string remedy) {
  return fail(Error{Code::kInvalid, fmt::format("\"{}\" is not a valid value of {}", value, member),
                    std::string(member), std::move(remedy)});
}

Status read_text(const Json& from, std::string_view member, std::string& out) {
  if (!from.is_string() || from.string().empty()) return refused(member, from.dump(), "write a text");
  out = from.string();
  return {};
}

Status read_positive(const Json& from, std::string_view member, Duration& out) {
  const auto parsed = parse_duration(from.string());
  if (!parsed || *parsed <= Duration{0}) return refused(member, from.string(), "write a duration such as 10m");
  out = *parsed;
  return {};
}

/// A volume's name is a DNS label; the agent makes a path of it.
bool is_volume(std::string_view name) {
  return !name.empty() && name.size() <= 63 && name.front() != '-' &&
         std::ranges::all_of(name, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
}

Status read_member(std::string_view name, const Json& value, CheckpointContract& out) {
  if (name == "http") return read_text(value, name, out.http);
  if (name == "file") {
    if (!is_volume(value.string())) return refused(name, value.string(), "write the name of an emptyDir of the pod");
    return read_text(value, name, out.file);
  }
  if (name == "signal") {
    if (std::ranges::find(kSignals, value.string()) == kSignals.end())
      return refused(name, value.string(), fmt::format("write one of {}", fmt::join(kSignals, ", ")));
    return read_text(value, name, out.signal);
  }
  if (name == "quorum") {
    if (!value.is_int() || value.integer() < 1 || value.integer() > kMostRanks)
      return refused(name, value.dump(), fmt::format("write a number of ranks, 1 to {}", kMostRanks));
    out.terms.quorum = static_cast<std::int32_t>(value.integer());
    return {};
  }
  if (name == "interval") return read_positive(value, name, out.terms.interval);
  if (name == "expected") return read_positive(value, name, out.terms.expected);
  if (name == "uri") {
    QM_TRY(read_text(value, name, out.terms.uri));
    return check_resume_uri(out.terms.uri);
  }
  if (name == "copy") {
    QM_TRY(read_text(value, name, out.copy));
    return check_resume_uri(out.copy);
  }
  return fail(Error{Code::kInvalid, fmt::format("it has an unknown member \"{}\"", name), std::string(name),
                    "its members are http, file, signal, quorum, interval, expected, uri and copy"});
}

}  // namespace

Result<CheckpointContract> checkpoint_contract(std::string_view annotation) {
  CheckpointContract out;
  if (!annotation.starts_with('{')) {
    out.http = annotation;
    return out;
  }
  const auto object = Json::parse(std::string(annotation));
  if (!object) return fail(Error{Code::kInvalid, "it is not JSON", {}, "write a URL, or a JSON object"});
  for (const auto& [name, value] : object->members()) QM_TRY(read_member(name, value, out));
  if (out.http.empty() && out.file.empty() && out.signal.empty())
    return fail(Error{Code::kInvalid, "it offers no mode", {}, "add http, file or signal"});
  return out;
}

std::int64_t checkpoint_steps(const Json& pod_spec) {
  for (const auto& container : pod_spec["containers"].items()) {
    for (const char* list : {"command", "args"}) {
      const auto& words = container[list].items();
      for (std::size_t i = 0; i < words.size(); ++i) {
        std::string_view text = words[i].string();
        if (!text.starts_with(kFrequency)) continue;
        text.remove_prefix(kFrequency.size());
        if (text.empty() && i + 1 < words.size()) {
          text = words[i + 1].string();
        } else if (text.starts_with('=')) {
          text.remove_prefix(1);
        }
        std::int64_t steps = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), steps);
        if (error == std::errc() && end == text.data() + text.size() && steps > 0) return steps;
      }
    }
  }
  return 0;
}

}  // namespace qm::config
