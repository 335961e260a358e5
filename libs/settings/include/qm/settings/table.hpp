#pragma once
#include "qm/settings/kind.hpp"

#include <initializer_list>
#include <type_traits>
#include <utility>

namespace qm::settings {

/// The place of a value in the options of a program: how it is read for the default, and how it is set.
template <class Get, class Set>
struct Property {
  Get get;  ///< (const Options&) -> value; nullptr: there is no default
  Set set;  ///< (Options&, value) -> void, or Status with an error that only this value has
};
template <class Get, class Set>
Property(Get, Set) -> Property<Get, Set>;

/// The member at the end of a path of members.
template <class Options, class First, class... Rest>
[[nodiscard]] auto& member_of(Options& options, First first, Rest... rest) {
  if constexpr (sizeof...(Rest) == 0) {
    return options.*first;
  } else {
    return member_of(options.*first, rest...);
  }
}

/// A member of the options, by its path: at(&Settings::engine, &Options::hold).
template <class... Path>
[[nodiscard]] auto at(Path... path) {
  return Property{[=](const auto& options) { return member_of(options, path...); },
                  [=](auto& options, auto value) {
                    auto& member = member_of(options, path...);
                    member = static_cast<std::remove_reference_t<decltype(member)>>(std::move(value));
                  }};
}
/// A value without a default that `set` adds to the options.
template <class Set>
[[nodiscard]] auto into(Set set) {
  return Property<std::nullptr_t, Set>{nullptr, std::move(set)};
}

/// One row of the table of a program: name, values, place in the options, and one sentence of help. The default is
/// that of the options, so it is written once.
template <class Options>
struct Row {
  template <class T, class Get, class Set>
  Row(std::string name, Kind<T> kind, Property<Get, Set> place, std::string help)
      : setting{std::move(name), kind.form, {}, std::move(help)} {
    if constexpr (!std::is_same_v<Get, std::nullptr_t>) {
      Options standard;  // not Options{}: GCC 12 reports members of aggregates as uninitialized
      setting.default_value = kind.write(static_cast<T>(place.get(standard)));
    }
    apply = [name = setting.name, kind = std::move(kind), set = std::move(place.set)](const std::string& value,
                                                                                      Options& options) -> Status {
      auto read = kind.read(value);
      if (!read) return fail(wrong_value(name, value, kind.form.allowed));
      if constexpr (std::is_void_v<decltype(set(options, *read))>) {
        set(options, std::move(*read));
        return {};
      } else {
        return set(options, std::move(*read));
      }
    };
  }
  Row(Setting about, std::function<Status(const std::string&, Options&)> function)
      : setting(std::move(about)), apply(std::move(function)) {}

  Setting setting;
  std::function<Status(const std::string& value, Options& options)> apply;  ///< kInvalid: the value is not allowed
};

/// All settings of one program.
///
/// Threads  any; a table does not change after its creation.
/// Cost     one search by name for each given setting.
template <class Options>
class Table {
 public:
  Table(std::initializer_list<Row<Options>> rows) : rows_(rows) {}

  /// The default options with the given values, which are applied in the order of the rows.
  ///
  /// Fails    kInvalid: a name is unknown, or a value is not allowed.
  [[nodiscard]] Result<Options> read(const Values& given) const {
    const auto known = settings();
    QM_TRY(check_names(given, known));
    Options out;
    for (const auto& row : rows_) {
      const auto value = given.find(row.setting.name);
      if (value != given.end()) QM_TRY(row.apply(value->second, out));
    }
    return out;
  }

  [[nodiscard]] std::vector<Setting> settings() const {
    std::vector<Setting> out;
    for (const auto& row : rows_) out.push_back(row.setting);
    return out;
  }

  /// Appends the rows of another table, whose options are a part of these.
  template <class Part>
  Table with(const Table<Part>& part, Part Options::*member) && {
    for (const auto& row : part.rows()) {
      rows_.push_back({row.setting, [apply = row.apply, member](const std::string& value, Options& options) {
                         return apply(value, options.*member);
                       }});
    }
    return std::move(*this);
  }

  [[nodiscard]] const std::vector<Row<Options>>& rows() const { return rows_; }

 private:
  std::vector<Row<Options>> rows_;
};

}  // namespace qm::settings
