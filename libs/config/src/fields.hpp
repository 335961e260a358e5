#pragma once
#include "qm/config/manifest.hpp"
#include "qm/config/names.hpp"
#include "schema.hpp"

#include <concepts>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace qm::config {

/// The origin of a document, which determines the checks: objects of an API server were validated there, and stored
/// objects were accepted before.
enum class Origin { kAuthor, kCluster, kStore };

/// Collects the diagnostics of one document while a typed reader parses it.
class Scope {
 public:
  Scope(Document& document, Origin origin) : document_(document), origin_(origin) {}

  void error(const std::string& path, std::string message, std::string remedy);
  void warn(const std::string& path, std::string message, std::string remedy);
  void unknown(const std::string& path, std::string message, std::string remedy);
  void carry(const std::string& path) { document_.carried.push_back(path); }

  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] Origin origin() const { return origin_; }
  [[nodiscard]] std::vector<Diagnostic>& diagnostics() { return diagnostics_; }

 private:
  void report(Diagnostic::Severity severity, const std::string& path, std::string message, std::string remedy);

  Document& document_;
  Origin origin_;
  std::vector<Diagnostic> diagnostics_;
  bool failed_ = false;
};

/// One value of the document, and its path.
struct Cursor {
  Scope* scope = nullptr;
  std::string path;
  const Json* value = nullptr;

  [[nodiscard]] Cursor member(std::string_view name) const;
  [[nodiscard]] Cursor item(std::size_t index) const;
  void error(std::string message, std::string remedy) const {
    scope->error(path, std::move(message), std::move(remedy));
  }
  void warn(std::string message, std::string remedy) const { scope->warn(path, std::move(message), std::move(remedy)); }
};

/// One row of a kind's table: the field's name, its reader, and its schema for the API server. A row
/// without a reader is known but not used: it is carried without a warning. A row without a schema accepts any
/// value.
template <class T>
struct Field {
  std::string_view name;
  bool required = false;
  std::function<void(const Cursor&, T&)> read;
  Json schema = {};
};

/// A kind's table: it drives parsing, the check for missing fields, the report of unknown fields, and the schema.
template <class T>
using Table = std::vector<Field<T>>;

/// Whether unknown fields cause a warning: yes for quartermaster.dev kinds and kinds that only Quartermaster reads;
/// no for kinds that an API server checks anyway (Job).
enum class Unknown { kWarn, kCarry };

// ---- one value each; on an error they report it and do not change `out` ----

bool read_text(const Cursor& at, std::string& out);
bool read_integer(const Cursor& at, std::int64_t& out, std::int64_t least, std::int64_t most);
bool read_boolean(const Cursor& at, bool& out);
bool read_quantity(const Cursor& at, Quantity& out);
bool read_money(const Cursor& at, Money& out);
/// If `never`, the word "Never" is Duration::max().
bool read_duration(const Cursor& at, Duration& out, bool never = false);
void read_labels(const Cursor& at, Labels& out);
void read_texts(const Cursor& at, std::vector<std::string>& out);
void read_quantities(const Cursor& at, std::map<std::string, Quantity>& out);
/// Checks a name by the rules of Kubernetes, except in stored documents.
void check_name(const Cursor& at, std::string_view name, NameRule rule = NameRule::kSubdomain);
/// Checks keys and values of labels; a value that is not text is also an error.
void check_labels(const Cursor& at);
/// Checks the keys of annotations, and that their values are text.
void check_annotations(const Cursor& at);
/// Checks that an amount fits in 64 bits: in thousandths for CPUs and GPUs, otherwise in units.
void check_amount(const Cursor& at, std::string_view resource, const Quantity& amount);
/// Calls fn for each item of a list; a value that is not a list is an error.
void each_item(const Cursor& at, const std::function<void(const Cursor&)>& fn);
[[nodiscard]] bool is_object(const Cursor& at);
void unknown_field(const Cursor& at, const std::vector<std::string_view>& known);

template <class T>
void read_object(const Cursor& at, const Table<T>& table, T& out, Unknown unknown = Unknown::kWarn) {
  if (!is_object(at)) return;
  for (const auto& [name, value] : at.value->members()) {
    if (value.is_null()) continue;  // as in Kubernetes: null counts as absent
    const Cursor field{at.scope, at.member(name).path, &value};
    const Field<T>* row = nullptr;
    for (const Field<T>& candidate : table) {
      if (candidate.name == name) row = &candidate;
    }
    if (row != nullptr && row->read) {
      row->read(field, out);
      continue;
    }
    at.scope->carry(field.path);
    if (row != nullptr || unknown == Unknown::kCarry) continue;
    std::vector<std::string_view> known;
    for (const Field<T>& candidate : table) known.push_back(candidate.name);
    unknown_field(field, known);
  }
  for (const Field<T>& row : table) {
    if (row.required && (*at.value)[row.name].is_null())
      at.member(row.name).error("is missing", fmt::format("add the field {}", row.name));
  }
}

/// The schema of an object with these fields.
template <class T>
Json object_schema(const Table<T>& table) {
  Json properties = Json::object(), required = Json::array();
  for (const Field<T>& row : table) {
    properties.set(row.name, row.schema.is_null() ? schema::anything() : row.schema);
    if (row.required) required.push_back(row.name);
  }
  return schema::object(std::move(properties), std::move(required));
}

// ---- rows ----

/// Known, carried, and not used by any engine.
template <class T>
Field<T> kept(std::string_view name) {
  return {name, false, {}};
}
/// For fields where Kubernetes treats an empty text as absent.
template <class T>
Field<T> or_empty(Field<T> row) {
  return {row.name, row.required, [read = std::move(row.read)](const Cursor& at, T& out) {
            if (!at.value->is_string() || !at.value->string().empty()) read(at, out);
          }};
}
/// Parsed elsewhere (apiVersion, kind).
template <class T>
Field<T> taken(std::string_view name) {
  return {name, false, [](const Cursor&, T&) {}};
}
/// A field that has another name in this version.
template <class T>
Field<T> renamed(std::string_view name, std::string_view to) {
  return {name, false, [to](const Cursor& at, T&) {
            at.error("does not exist in this version of the API", fmt::format("rename it to {}", to));
          }};
}
template <class T>
Field<T> required(Field<T> row) {
  row.required = true;
  return row;
}

/// Text for a std::string or a named id.
template <class T, class M>
Field<T> text(std::string_view name, M T::*member) {
  return {name, false,
          [member](const Cursor& at, T& out) {
            std::string value;
            if (read_text(at, value)) out.*member = M(value);
          },
          schema::text()};
}
template <class T>
Field<T> one_of(std::string_view name, std::string T::*member, std::vector<std::string> allowed) {
  Json schema = schema::one_of(allowed);
  return {name, false,
          [member, allowed = std::move(allowed)](const Cursor& at, T& out) {
            std::string value;
            if (!read_text(at, value)) return;
            for (const std::string& word : allowed) {
              if (word == value) return void(out.*member = value);
            }
            std::vector<std::string_view> known(allowed.begin(), allowed.end());
            const auto meant = nearest(value, known);
            at.error(fmt::format("\"{}\" is not one of the allowed values", value),
                     fmt::format("use one of {}{}", fmt::join(allowed, ", "),
                                 meant.empty() ? "" : fmt::format("; did you mean {}?", meant)));
          },
          std::move(schema)};
}
template <class T, std::integral M>
Field<T> integer(std::string_view name, M T::*member, std::int64_t least, std::int64_t most) {
  return {name, false,
          [=](const Cursor& at, T& out) {
            std::int64_t value = 0;
            if (read_integer(at, value, least, most)) out.*member = static_cast<M>(value);
          },
          schema::integer(least, most)};
}
template <class T>
Field<T> boolean(std::string_view name, bool T::*member) {
  return {name, false, [member](const Cursor& at, T& out) { read_boolean(at, out.*member); }, schema::boolean()};
}
template <class T>
Field<T> duration(std::string_view name, Duration T::*member, bool never = false) {
  return {name, false, [=](const Cursor& at, T& out) { read_duration(at, out.*member, never); },
          schema::duration(never)};
}
template <class T>
Field<T> labels(std::string_view name, Labels T::*member) {
  return {name, false, [member](const Cursor& at, T& out) { read_labels(at, out.*member); },
          schema::map_of(schema::text(0))};
}
template <class T>
Field<T> texts(std::string_view name, std::vector<std::string> T::*member) {
  return {name, false, [member](const Cursor& at, T& out) { read_texts(at, out.*member); },
          schema::list_of(schema::text())};
}
template <class T>
Field<T> quantities(std::string_view name, std::map<std::string, Quantity> T::*member) {
  return {name, false, [member](const Cursor& at, T& out) { read_quantities(at, out.*member); },
          schema::map_of(schema::quantity())};
}
/// A list of objects, with the table of the item type.
template <class T, class E>
Field<T> list(std::string_view name, std::vector<E> T::*member, const Table<E>& table) {
  return {name, false,
          [member, &table](const Cursor& at, T& out) {
            each_item(at, [&](const Cursor& item) {
              E element;
              read_object(item, table, element);
              (out.*member).push_back(std::move(element));
            });
          },
          schema::list_of(object_schema(table))};
}
/// An object whose fields are parsed into the same value ("spec").
template <class T>
Field<T> group(std::string_view name, Table<T> table, Unknown unknown = Unknown::kWarn) {
  Json schema = object_schema(table);
  return {name, false,
          [table = std::move(table), unknown](const Cursor& at, T& out) { read_object(at, table, out, unknown); },
          std::move(schema)};
}
template <class T>
Field<T> custom(std::string_view name, std::function<void(const Cursor&, T&)> read, Json schema = {}) {
  return {name, false, std::move(read), std::move(schema)};
}
/// A row with a description for kubectl explain.
template <class T>
Field<T> documented(std::string_view text, Field<T> row) {
  row.schema = schema::described(text, std::move(row.schema));
  return row;
}
/// A list with a maximum number of items, checked here and by an API server.
template <class T>
Field<T> at_most(std::size_t most, Field<T> row) {
  row.schema.set("maxItems", static_cast<std::int64_t>(most));
  row.read = [most, read = std::move(row.read)](const Cursor& at, T& out) {
    if (at.value->is_array() && at.value->size() > most) {
      return at.error(fmt::format("has {} items, at most {} are allowed", at.value->size(), most),
                      fmt::format("move {} of them to a second object", at.value->size() - most));
    }
    read(at, out);
  };
  return row;
}
/// Text with a maximum number of characters, checked here and by an API server.
template <class T>
Field<T> up_to(std::size_t most, Field<T> row) {
  row.schema.set("maxLength", static_cast<std::int64_t>(most));
  row.read = [most, read = std::move(row.read)](const Cursor& at, T& out) {
    if (at.value->string().size() > most) {
      return at.error(fmt::format("has {} characters, at most {} are allowed", at.value->string().size(), most),
                      fmt::format("shorten it to {} characters", most));
    }
    read(at, out);
  };
  return row;
}
/// A CEL rule that an API server checks for the value; the reader has its own check for it.
template <class T>
Field<T> ruled(std::string_view rule, std::string_view message, Field<T> row) {
  row.schema = schema::ruled(rule, message, std::move(row.schema));
  return row;
}

/// Reads the annotation with a pool's Auto Scaling group; other annotations are carried.
template <class T>
void read_scaling_group(const Cursor& at, T& out) {
  if (!is_object(at)) return;
  for (const auto& member : at.value->members()) {
    const Cursor annotation = at.member(member.first);
    if (member.first == words::kScalingGroup) {
      read_text(annotation, out.scaling_group);
    } else {
      at.scope->carry(annotation.path);
    }
  }
}

/// The rows that every object has, before those of its kind.
template <class T>
Table<T> with_identity(Table<T> rows) {
  Table<T> metadata{required<T>(custom<T>("name",
                                          [](const Cursor& at, T& out) {
                                            std::string name;
                                            if (!read_text(at, name)) return;
                                            check_name(at, name);
                                            out.name = std::remove_reference_t<decltype(out.name)>(name);
                                          })),
                    custom<T>("labels",
                              [](const Cursor& at, T&) {
                                check_labels(at);
                                at.scope->carry(at.path);
                              }),
                    kept<T>("generateName"),
                    kept<T>("selfLink"),
                    kept<T>("deletionTimestamp"),
                    kept<T>("deletionGracePeriodSeconds"),
                    kept<T>("uid"),
                    kept<T>("creationTimestamp"),
                    kept<T>("resourceVersion"),
                    kept<T>("generation"),
                    kept<T>("managedFields"),
                    kept<T>("finalizers"),
                    kept<T>("ownerReferences")};
  if constexpr (requires(T t) { t.scaling_group; }) {
    metadata.push_back(custom<T>("annotations", read_scaling_group<T>));
  } else {
    metadata.push_back(kept<T>("annotations"));
  }
  if constexpr (requires(T t) { t.ns; }) {
    metadata.push_back(custom<T>("namespace", [](const Cursor& at, T& out) {
      std::string ns;
      if (!read_text(at, ns)) return;
      check_name(at, ns, NameRule::kLabel);
      out.ns = Namespace(ns);
    }));
  } else {
    metadata.push_back(kept<T>("namespace"));
  }
  Table<T> table{taken<T>("apiVersion"), taken<T>("kind"), required<T>(group<T>("metadata", std::move(metadata))),
                 kept<T>("status")};
  for (Field<T>& row : rows) table.push_back(std::move(row));
  return table;
}

// ---- tables that kinds share ----

const Table<Taint>& taint_table();
const Table<Toleration>& toleration_table();

/// The group and versions of a kind, and the type that it is parsed into.
struct KindReader {
  std::string_view group;
  std::vector<std::string_view> versions;
  std::string_view kind;
  std::function<Typed(const Cursor& root, std::string_view version)> read;
};
/// The definition of a quartermaster.dev kind for the API server.
struct Definition {
  std::string_view kind, plural, short_name, description;
  Json schema;                                                         ///< of the whole object, without its status
  std::vector<std::pair<std::string_view, std::string_view>> columns;  ///< kubectl columns: header, path
};
std::vector<Definition> own_definitions();

std::vector<KindReader> kueue_kinds();
std::vector<KindReader> karpenter_kinds();
KindReader node_class_kind();
/// The schema of the spec of an EC2NodeClass in this version.
Json node_class_schema(std::string_view version);
std::vector<KindReader> own_kinds();
KindReader job_kind();

}  // namespace qm::config
