#pragma once
#include "qm/base/json.hpp"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace qm::hostile {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using namespace std::string_literals;

/// Generates messages of any type with random fields: some known names, and values outside the range of every field.
class Attacker {
 public:
  explicit Attacker(std::uint64_t seed) : random_(seed) {}

  std::size_t pick(std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(random_); }

  std::string text() {
    static const std::vector<std::string> known{"a",          "b",       "a/1", "node-1", "ns/pod-1", "p5.48xlarge",
                                                "us-east-1a", "1g.10gb", "",    "0",      "-1",       "nvidia.com/gpu"};
    switch (pick(10)) {
      case 0:
        return "a\0b"s;
      case 1:
        return std::string(pick(40) == 0 ? 1 << 20 : 1 << 11, 'm');
      case 2:
        return "\x1b[2J\r\n\t"s;
      case 3:
        return "'; drop table state; --\xe2\x80\xae"s;
      default:
        return known[pick(known.size())];
    }
  }
  std::int64_t number() {
    constexpr std::int64_t kEdges[] = {0,
                                       1,
                                       -1,
                                       std::numeric_limits<std::int64_t>::max(),
                                       std::numeric_limits<std::int64_t>::min(),
                                       1LL << 31,
                                       -(1LL << 31),
                                       1000};
    return pick(2) == 0 ? kEdges[pick(std::size(kEdges))] : static_cast<std::int64_t>(pick(10));
  }
  double real() {
    constexpr double kEdges[] = {
        0, -1, 1e308, -1e308, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 0.5};
    return kEdges[pick(std::size(kEdges))];
  }

  void fill(Message& message, int depth = 0) {
    const auto* type = message.GetDescriptor();
    for (int i = 0; i < type->field_count(); ++i) {
      const auto* field = type->field(i);
      if (pick(3) == 0 || (depth > 4 && field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE)) continue;
      const auto count = field->is_repeated() ? pick(4) : 1;
      for (std::size_t n = 0; n < count; ++n) set(message, field, depth);
    }
  }
  std::string bytes(const std::string& type) {
    const auto* descriptor = google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(type);
    EXPECT_NE(descriptor, nullptr) << type;
    const std::unique_ptr<Message> message(
        google::protobuf::MessageFactory::generated_factory()->GetPrototype(descriptor)->New());
    fill(*message);
    auto out = message->SerializePartialAsString();
    if (pick(20) == 0 && !out.empty()) out[pick(out.size())] = static_cast<char>(pick(256));
    if (pick(40) == 0) out.resize(pick(out.size() + 1));
    return out;
  }
  Json json(int depth = 0) {
    switch (pick(depth > 4 ? 4 : 6)) {
      case 0:
        return Json(number());
      case 1:
        return Json(pick(2) == 0);
      case 2:
        return Json();
      case 3:
        return Json(text());
      case 4: {
        Json out = Json::array();
        for (auto n = pick(3); n > 0; --n) out.push_back(json(depth + 1));
        return out;
      }
      default:
        return object(depth);
    }
  }
  /// An object with member names of the Kubernetes API and values of random types.
  Json object(int depth = 0) {
    static const std::vector<std::string> names{
        "metadata",    "spec",        "status",   "name",       "namespace",  "uid",       "labels", "kind",
        "annotations", "phase",       "nodeName", "template",   "containers", "resources", "limits", "nvidia.com/gpu",
        "parallelism", "completions", "suspend",  "apiVersion", "conditions", "attempt"};
    Json out = Json::object();
    for (auto n = pick(8); n > 0; --n) out.set(names[pick(names.size())], json(depth + 1));
    return out;
  }

 private:
  void set(Message& message, const FieldDescriptor* field, int depth) {
    const auto* r = message.GetReflection();
    const bool many = field->is_repeated();
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return fill(many ? *r->AddMessage(&message, field) : *r->MutableMessage(&message, field), depth + 1);
      case FieldDescriptor::CPPTYPE_STRING:
        return many ? r->AddString(&message, field, text()) : r->SetString(&message, field, text());
      case FieldDescriptor::CPPTYPE_BOOL:
        return many ? r->AddBool(&message, field, pick(2) == 0) : r->SetBool(&message, field, pick(2) == 0);
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return many ? r->AddDouble(&message, field, real()) : r->SetDouble(&message, field, real());
      case FieldDescriptor::CPPTYPE_FLOAT: {
        const auto value = static_cast<float>(pick(3));
        return many ? r->AddFloat(&message, field, value) : r->SetFloat(&message, field, value);
      }
      case FieldDescriptor::CPPTYPE_ENUM: {
        const auto value = static_cast<int>(pick(12)) - 1;
        return many ? r->AddEnumValue(&message, field, value) : r->SetEnumValue(&message, field, value);
      }
      case FieldDescriptor::CPPTYPE_INT32: {
        const auto value = static_cast<std::int32_t>(number());
        return many ? r->AddInt32(&message, field, value) : r->SetInt32(&message, field, value);
      }
      case FieldDescriptor::CPPTYPE_UINT32: {
        const auto value = static_cast<std::uint32_t>(number());
        return many ? r->AddUInt32(&message, field, value) : r->SetUInt32(&message, field, value);
      }
      case FieldDescriptor::CPPTYPE_INT64:
        return many ? r->AddInt64(&message, field, number()) : r->SetInt64(&message, field, number());
      case FieldDescriptor::CPPTYPE_UINT64: {
        const auto value = static_cast<std::uint64_t>(number());
        return many ? r->AddUInt64(&message, field, value) : r->SetUInt64(&message, field, value);
      }
    }
  }

  std::mt19937_64 random_;
};

}  // namespace qm::hostile
