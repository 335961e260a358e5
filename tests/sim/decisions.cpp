#include "decisions.hpp"

#include "qm/base/assert.hpp"
#include "quartermaster/v1/events.pb.h"
#include "quartermaster/v1/options.pb.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <map>
#include <memory>
#include <vector>

namespace qm::sim {
namespace {

namespace pb = quartermaster::v1;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

template <class Event>
std::unique_ptr<Message> event() {
  return std::make_unique<Event>();
}

std::unique_ptr<Message> event_of(const std::string& topic) {
  static const std::map<std::string, std::unique_ptr<Message> (*)()> kEvents = {
      {"qm.workload", event<pb::WorkloadEvent>}, {"qm.placement", event<pb::PlacementEvent>},
      {"qm.capacity", event<pb::CapacityEvent>}, {"qm.node", event<pb::NodeEvent>},
      {"qm.gpu", event<pb::GpuEvent>},           {"qm.spot", event<pb::SpotEvent>},
      {"qm.cost", event<pb::CostEvent>}};
  const auto it = kEvents.find(topic);
  QM_ASSERT(it != kEvents.end(), "the topic {} has no event type", topic);
  return it->second();
}

void clear_texts(Message& message) {
  const auto* reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const auto* field : fields) {
    const bool text = field->options().GetExtension(pb::text) == pb::Text::TEXT;
    if (field->is_map()) {
      for (int i = 0; text && i < reflection->FieldSize(message, field); ++i) {
        Message& entry = *reflection->MutableRepeatedMessage(&message, field, i);
        entry.GetReflection()->ClearField(&entry, entry.GetDescriptor()->map_value());
      }
    } else if (text) {
      reflection->ClearField(&message, field);
    } else if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      continue;
    } else if (field->is_repeated()) {
      for (int i = 0; i < reflection->FieldSize(message, field); ++i)
        clear_texts(*reflection->MutableRepeatedMessage(&message, field, i));
    } else {
      clear_texts(*reflection->MutableMessage(&message, field));
    }
  }
}

/// The bytes of a message in which the entries of maps are sorted.
std::string sorted_bytes(const Message& message) {
  std::string out;
  google::protobuf::io::StringOutputStream stream(&out);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  QM_ASSERT(message.SerializeToCodedStream(&coded), "an event of type {} cannot be written", message.GetTypeName());
  coded.Trim();
  return out;
}

}  // namespace

void Decisions::add(const std::string& service, const service::FeedEvent& event) {
  digest_.add(service).add(event.topic).add(event.key).add(event.tombstone ? 1 : 0);
  if (event.payload.empty()) return;
  const auto message = event_of(event.topic);
  QM_ASSERT(message->ParseFromString(event.payload), "an event of {} cannot be read", event.topic);
  clear_texts(*message);
  digest_.add(sorted_bytes(*message));
}

}  // namespace qm::sim
