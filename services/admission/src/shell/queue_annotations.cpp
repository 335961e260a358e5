#include "queue_annotations.hpp"

#include "qm/config/manifest.hpp"
#include "qm/kube/client.hpp"

#include <charconv>

namespace qm::admission {
namespace {

tl::unexpected<Error> refuse(std::string_view annotation, std::string why, std::string remedy) {
  return fail({Code::kInvalid, std::move(why), fmt::format("metadata.annotations[{}]", annotation), std::move(remedy)});
}

Result<forecast::Ageing> ageing_of(std::string_view text) {
  const auto wrong = [&](std::string_view what) {
    return refuse(kAgeing, fmt::format("{}: {}", text, what), "write for example bound=168h,ceiling=100");
  };
  forecast::Ageing out;
  bool bound = false, ceiling = false;
  for (std::string_view rest = text; !rest.empty();) {
    const auto comma = std::min(rest.find(','), rest.size());
    const auto part = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    const auto is = std::min(part.find('='), part.size());
    const auto key = part.substr(0, is), value = part.substr(std::min(is + 1, part.size()));
    if (key == "bound" && !bound) {
      const auto read = config::parse_duration(value);
      if (!read || *read <= Duration{0}) return wrong("the bound is no duration");
      out.bound = *read;
      bound = true;
    } else if (key == "ceiling" && !ceiling) {
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), out.ceiling);
      if (error != std::errc() || end != value.data() + value.size()) return wrong("the ceiling is no priority");
      ceiling = true;
    } else {
      return wrong(fmt::format("{} is not understood", part));
    }
  }
  if (!bound) return wrong("it has no bound");
  return out;
}

}  // namespace

Status read_passing(const Json& object, ClusterQueue& queue) {
  if (const auto backfill = kube::annotation(object, kBackfill); !backfill.empty()) {
    if (backfill != "conservative") {
      return refuse(kBackfill, fmt::format("{} is not a known value", backfill), "write conservative, or leave it out");
    }
    queue.backfill = true;
  }
  if (const auto ageing = kube::annotation(object, kAgeing); !ageing.empty()) {
    QM_ASSIGN(queue.ageing, ageing_of(ageing));
  }
  return {};
}

}  // namespace qm::admission
