#include "qm/config/manifest.hpp"

#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <filesystem>

namespace qm::config {
namespace manifest_prop_test {

std::vector<std::string> example_texts() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(QM_SOURCE_DIR "/examples")) {
    if (entry.path().extension() == ".yaml") out.push_back(testing::read_file(entry.path()));
  }
  std::sort(out.begin(), out.end());
  return out;
}

// Any modification of a manifest results in consistent objects and diagnostics.
RC_GTEST_PROP(Manifest, DamagedTextsAreDiagnosedNotFatal, ()) {
  static const std::vector<std::string> texts = example_texts();
  RC_PRE(!texts.empty());
  std::string text = texts[*rc::gen::inRange<std::size_t>(0, texts.size())];
  const int edits = *rc::gen::inRange(1, 6);
  static const std::string letters = "-:[]{}&*!|>'\"%@`,#? \n\t0a\\~";
  for (int i = 0; i < edits; ++i) {
    const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
    const char letter = letters[*rc::gen::inRange<std::size_t>(0, letters.size())];
    switch (*rc::gen::inRange(0, 3)) {
      case 0:
        text.erase(at, 1);
        break;
      case 1:
        text.insert(at, 1, letter);
        break;
      default:
        text[at] = letter;
        break;
    }
  }
  const Loaded loaded = load_text(text, "f.yaml");
  const auto lines = 1 + std::count(text.begin(), text.end(), '\n');
  for (const Diagnostic& diagnostic : loaded.diagnostics) {
    RC_ASSERT(diagnostic.line >= 1);
    RC_ASSERT(diagnostic.line <= lines + 1);
    RC_ASSERT(!diagnostic.message.empty());
    RC_ASSERT(!diagnostic.remedy.empty());
  }
  for (const Object& object : loaded.objects) {
    const bool carried = std::holds_alternative<std::monostate>(object.typed);
    if (carried)
      RC_ASSERT(object.document.carried.size() == object.document.content.size() ||
                !object.document.content.is_object());
  }
}

RC_GTEST_PROP(Manifest, AnyTextEnds, ()) {
  const auto text = *rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab:- \n[]{}&*!|>'\"%#?,\t0")));
  (void)load_text(text, "f.yaml");
}

// A job's annotations and labels never break the round trip.
RC_GTEST_PROP(Job, ThereAndBackForAnySize, ()) {
  WorkloadSpec spec;
  spec.ns = Namespace("ns");
  spec.name = "j";
  spec.team = Team("t");
  spec.labels[std::string(words::kTeamLabel)] = "t";
  PodSet set;
  set.count = *rc::gen::inRange(1, 1000);
  set.shape.cpu_milli = *rc::gen::inRange<std::int64_t>(0, 1'000'000);
  set.shape.memory_bytes = *rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 45);
  set.shape.gpu.whole = *rc::gen::inRange(0, 17);
  spec.pod_sets = {set};
  spec.expected_runtime = Duration(*rc::gen::inRange<std::int64_t>(0, 1'000'000'000'000));
  auto back = workload_from_job(job_from_workload(spec, {}));
  RC_ASSERT(back.has_value());
  back->pod_sets[0].rules.clear();  // the pods' labels, which equal those of the spec
  RC_ASSERT((*back == spec));
}

}  // namespace manifest_prop_test
}  // namespace qm::config
