#pragma once
#include "qm/service/shell.hpp"

#include <concepts>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace qm::service {

/// A pure decision engine: commands and time in, output out. No clock, IO, thread, randomness or protobuf.
///
///   struct Engine {
///     using Command = std::variant<...>;   // its inputs
///     using Output = ...;                  // a struct of vectors: events, intents, replies; and wake_at
///     Output step(std::span<const Command> batch, Instant now);
///     void undo();  void commit();         // of the last step (implemented by its tables); see Shell
///     static constexpr std::size_t kMostOpen = 2;  // optional, see Shell::most_open()
///     std::uint64_t digest() const;
///   };
template <class E>
concept Engine = requires(E engine, const E& reader, std::span<const typename E::Command> batch, Instant now) {
  { engine.step(batch, now) } -> std::same_as<typename E::Output>;
  engine.undo();
  engine.commit();
  { reader.digest() } -> std::same_as<std::uint64_t>;
};

/// The codec of a service: inputs to commands, outputs to rows and messages. One class per service, in its shell/.
///
///   Result<std::vector<Command>> decode(const Input&)          // usually one command; none = no change
///   void encode(const Engine&, const Output&, std::span<const CommandOrigin>, Effects&)
///   Status load(Engine&, std::span<const StateRow>)
///   void debug_state(const Engine&, StateDump&)
template <class C, class E>
concept CodecOf = requires(C codec, E& engine, const E& reader, const Input& input, const typename E::Output& output,
                           std::span<const std::size_t> origin, Effects& effects, std::span<const store::StateRow> rows,
                           StateDump& dump) {
  { codec.decode(input) } -> std::same_as<Result<std::vector<typename E::Command>>>;
  // origin[i] is the input index that command i came from
  codec.encode(reader, output, origin, effects);
  { codec.load(engine, rows) } -> std::same_as<Status>;
  codec.debug_state(reader, dump);
};

/// Any engine with its codec as a Shell.
template <Engine E, class C>
requires CodecOf<C, E>
class EngineShell final : public Shell {
 public:
  EngineShell(std::unique_ptr<E> engine, C codec) : engine_(std::move(engine)), codec_(std::move(codec)) {}

  Status load(std::span<const store::StateRow> rows) override { return codec_.load(*engine_, rows); }

  void step(std::span<const Input> batch, Instant now, Effects& out,
            std::vector<std::pair<std::size_t, Error>>& poison) override {
    std::vector<typename E::Command> commands;
    std::vector<std::size_t> origin;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      auto decoded = decode(batch[i]);
      if (!decoded) {
        if (batch[i].source == Source::kRequest) {
          out.answers.push_back({i, tl::unexpected<Error>(decoded.error())});
        } else {
          poison.emplace_back(i, decoded.error());
        }
        continue;
      }
      for (auto& command : *decoded) {
        commands.push_back(std::move(command));
        origin.push_back(i);
      }
    }
    const auto output = engine_->step(commands, now);
    codec_.encode(*engine_, output, origin, out);
  }

  [[nodiscard]] std::size_t most_open() const override {
    if constexpr (requires { E::kMostOpen; }) return E::kMostOpen;
    return 1;
  }
  void undo() override { engine_->undo(); }
  void commit() override { engine_->commit(); }
  [[nodiscard]] std::uint64_t digest() const override { return engine_->digest(); }
  void debug_state(StateDump& out) const override { codec_.debug_state(*engine_, out); }
  [[nodiscard]] const E& engine() const { return *engine_; }

 private:
  Result<std::vector<typename E::Command>> decode(const Input& input) {
    const auto cleaned = without_nul(input);
    return codec_.decode(cleaned ? *cleaned : input);
  }

  std::unique_ptr<E> engine_;
  C codec_;
};

}  // namespace qm::service
