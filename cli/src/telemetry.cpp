// Verbs that show readings and events.
#include "commands.hpp"
#include "print.hpp"
#include "qm/wire/sample.hpp"
#include "table.hpp"
#include "words.hpp"

#include <algorithm>
#include <ostream>

namespace qm::cli {

Status run_verb(Context& context, const TopVerb& verb) {
  pb::QueryRequest request;
  request.set_node(verb.node);
  request.set_namespace_(verb.ns);
  QM_ASSIGN(const auto answer, context.client.readings(request));
  if (context.structured()) {
    print(context, answer);
    return {};
  }
  if (answer.readings().empty()) {
    context.err << fmt::format("no readings (source {})\n", answer.source());
    return {};
  }
  Table table({{"NODE"},
               {"GPU-INDEX", true},
               {"MODEL"},
               {"UTILIZATION", true},
               {"SM-ACTIVE", true},
               {"FB-USED", true},
               {"FB-TOTAL", true},
               {"TEMPERATURE", true},
               {"POWER", true},
               {"XID", true},
               {"POD"},
               {"AGE", true}});
  const Instant now = from_micros(answer.as_of_us());
  std::int64_t oldest = answer.as_of_us();
  double utilization = 0;
  for (const auto& reading : answer.readings()) {
    const auto& s = reading.sample();
    oldest = std::min(oldest, reading.at_us());
    utilization += s.utilization();
    using S = pb::GpuSample;
    const auto known = [&](int field, const std::string& text) {
      return wire::has_value(s, field) ? text : std::string();
    };
    const auto total = known(S::kFbFreeBytesFieldNumber, bytes(s.fb_used_bytes() + s.fb_free_bytes()));
    table.row({reading.node(), std::to_string(s.gpu_index()), s.model(), percent(s.utilization()),
               percent(s.sm_active()), known(S::kFbUsedBytesFieldNumber, bytes(s.fb_used_bytes())),
               known(S::kFbUsedBytesFieldNumber, total),
               known(S::kTemperatureCFieldNumber, fmt::format("{:.0f}C", s.temperature_c())),
               known(S::kPowerWattsFieldNumber, fmt::format("{:.0f}W", s.power_watts())),
               s.xid() == 0 ? "" : std::to_string(s.xid()), s.pod().empty() ? "" : s.namespace_() + "/" + s.pod(),
               age(reading.at_us(), now)});
  }
  context.out << table.text()
              << fmt::format("{} GPUs, {} used on average; source {}, as of {}, oldest reading {}\n",
                             answer.readings_size(), percent(utilization / answer.readings_size()), answer.source(),
                             instant(answer.as_of_us()), age(oldest, now));
  return {};
}

Status run_verb(Context& context, const EventsVerb& verb) {
  pb::FollowEventsRequest request;
  request.set_topic(verb.topic);
  request.set_key(verb.key);
  std::int64_t seen = 0;
  return context.client.follow(request, [&](const pb::EventLine& event) {
    if (context.structured()) {
      print_next(context, event);
    } else {
      // The key, usually a uid, is a field of the JSON.
      auto text = fmt::format("{}  {:<12}  {}", instant(event.at_us()), event.topic(), printable(event.summary()));
      text.erase(text.find_last_not_of(' ') + 1);
      context.out << text << '\n';
    }
    context.out.flush();
    // The stream also ends when its reader is gone, as with "| head".
    return context.out.good() && ++seen != verb.count;
  });
}

}  // namespace qm::cli
