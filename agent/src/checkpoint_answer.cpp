#include "checkpoint_answer.hpp"

#include <algorithm>
#include <cmath>

namespace qm::agent {

Result<RankAnswer> read_rank_answer(const Rank& rank, const std::string& text) {
  if (text.size() > kMaxAnswer)
    return fail(Code::kInvalid, "{}/{} answers with more than {} bytes", rank.ns, rank.name, kMaxAnswer);
  const auto json = Json::parse(text);
  if (!json || !(*json)["step"].is_int() || (*json)["step"].integer() < 0)
    return fail(Code::kInvalid, "{}/{} answers without a step", rank.ns, rank.name);
  RankAnswer out;
  out.save.ranks = 1;
  out.save.step = (*json)["step"].integer();
  out.save.uri = (*json)["uri"].string();
  if (const auto checked = check_resume_uri(out.save.uri); !checked)
    return fail(Code::kInvalid, "{}/{} answers with a URI that cannot be used: {}", rank.ns, rank.name,
                checked.error().message);
  out.save.epoch = std::max<std::int64_t>((*json)["epoch"].integer(), 0);
  out.save.bytes = std::max<std::int64_t>((*json)["bytes"].integer(), 0);
  constexpr double kMostSeconds = 86'400;
  const Json& took = (*json)["seconds"];
  const double seconds = took.is_int() ? static_cast<double>(took.integer()) : took.number();
  if (std::isfinite(seconds) && seconds > 0)
    out.save.took = Duration(static_cast<std::int64_t>(std::min(seconds, kMostSeconds) * 1e6));
  out.fence = (*json)["fence"].string();
  return out;
}

}  // namespace qm::agent
