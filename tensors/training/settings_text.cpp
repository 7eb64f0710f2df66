#include "tensors/training/settings_text.hpp"

#include <cmath>
#include <concepts>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "tensors/base/error.hpp"
#include "tensors/files/json_object.hpp"

namespace zerolock {
namespace {

using nlohmann::json;

// The words of each enumeration; nothing for a number beyond its last. The compiler insists that no value is
// left out.

const char* word(KlDirection value) {
  switch (value) {
    case KlDirection::forward:
      return "forward";
    case KlDirection::reverse:
      return "reverse";
  }
  return nullptr;
}

const char* word(HeadKind value) {
  switch (value) {
    case HeadKind::fixed:
      return "static";
    case HeadKind::restricted:
      return "restricted";
    case HeadKind::calibrated:
      return "calibrated";
    case HeadKind::adapter:
      return "adapter";
    case HeadKind::bottleneck:
      return "bottleneck";
  }
  return nullptr;
}

const char* word(LossForm value) {
  switch (value) {
    case LossForm::weighted_terms:
      return "weighted";
    case LossForm::target_cross_entropy:
      return "geometric-mean";
    case LossForm::target_divergence:
      return "reverse-kl";
  }
  return nullptr;
}

const char* word(OptimizerKind value) {
  switch (value) {
    case OptimizerKind::adamw:
      return "adamw";
    case OptimizerKind::sgd:
      return "sgd";
  }
  return nullptr;
}

const char* word(ScheduleKind value) {
  switch (value) {
    case ScheduleKind::constant:
      return "constant";
    case ScheduleKind::cosine:
      return "cosine";
    case ScheduleKind::inverse_sqrt:
      return "inverse-sqrt";
  }
  return nullptr;
}

const char* word(ComputeType value) {
  switch (value) {
    case ComputeType::fp32:
      return "fp32";
    case ComputeType::bf16:
      return "bf16";
    case ComputeType::fp64:
      return "fp64";
  }
  return nullptr;
}

const char* word(EmbedAt value) {
  switch (value) {
    case EmbedAt::stage:
      return "stage";
    case EmbedAt::source:
      return "source";
  }
  return nullptr;
}

const char* word(BaseFormat value) {
  switch (value) {
    case BaseFormat::keep:
      return "keep";
    case BaseFormat::fp32:
      return "fp32";
    case BaseFormat::bf16:
      return "bf16";
    case BaseFormat::q8_0:
      return "q8_0";
    case BaseFormat::q4_1:
      return "q4_1";
  }
  return nullptr;
}

// The fields of each structure, once for both directions. A structure that gains a field no longer matches
// its structured binding, so that none can be forgotten here.

template <class Visit>
void visit_fields(LoraSettings& settings, Visit& visit) {
  auto& [rank, alpha, rank_stabilised, targets] = settings;
  visit("rank", rank);
  visit("alpha", alpha);
  visit("rank_stabilised", rank_stabilised);
  visit("targets", targets);
}

template <class Visit>
void visit_fields(HeadSettings& settings, Visit& visit) {
  auto& [kind, tokens, ridge, bottleneck_rank, bottleneck_trained, adapter_width, warm_up] = settings;
  visit("kind", kind);
  visit("restricted_tokens", tokens);
  visit("ridge", ridge);
  visit("bottleneck_rank", bottleneck_rank);
  visit("bottleneck_trained", bottleneck_trained);
  visit("adapter_width", adapter_width);
  visit("adapter_warm_up", warm_up);
}

template <class Visit>
void visit_fields(LossSettings& settings, Visit& visit) {
  auto& [alpha, form, label_smoothing, direction, first_chunk_consistency, inner_head, last_head] = settings;
  visit("alpha", alpha);
  visit("form", form);
  visit("label_smoothing", label_smoothing);
  visit("direction", direction);
  visit("first_chunk_consistency", first_chunk_consistency);
  visit("inner_head", inner_head);
  visit("last_head", last_head);
}

template <class Visit>
void visit_fields(OptimizerSettings& settings, Visit& visit) {
  auto& [kind, rate, inner_scale, schedule, offset, windows, beta1, beta2, epsilon, decay, clip] = settings;
  visit("kind", kind);
  visit("learning_rate", rate);
  visit("inner_learning_rate_scale", inner_scale);
  visit("schedule", schedule);
  visit("schedule_offset", offset);
  visit("schedule_windows", windows);
  visit("beta1", beta1);
  visit("beta2", beta2);
  visit("epsilon", epsilon);
  visit("weight_decay", decay);
  visit("clip_norm", clip);
}

template <class Visit>
void visit_fields(TrainingSettings& settings, Visit& visit) {
  auto& [lora, loss, optimizer, compute, base, recompute, seed, trained_stages, calibration_rows, embed_at] =
      settings;
  visit("lora", lora);
  visit("loss", loss);
  visit("optimizer", optimizer);
  visit("compute", compute);
  visit("base", base);
  visit("recompute", recompute);
  visit("seed", seed);
  visit("trained_stages", trained_stages);
  visit("calibration_rows_max", calibration_rows);
  visit("embed_at", embed_at);
}

/// Turns a structure's fields into an object.
class FieldWriter {
 public:
  template <class Field>
  void operator()(const char* key, Field& field) {
    object_[key] = json_of(key, field);
  }
  json take() { return std::move(object_); }

 private:
  template <class Field>
  static json json_of(const char* key, Field& field) {
    if constexpr (std::is_enum_v<Field>) {
      ZEROLOCK_INVARIANT(word(field) != nullptr, "an enumeration holds one of its values");
      return word(field);
    } else if constexpr (std::same_as<Field, double>) {
      if (!std::isfinite(field)) throw InputError("training settings", std::string(key) + " is not finite");
      return field;
    } else if constexpr (requires(FieldWriter & inner) { visit_fields(field, inner); }) {
      FieldWriter inner;
      visit_fields(field, inner);
      return inner.take();
    } else if constexpr (requires { field.has_value(); }) {
      return field ? json_of(key, *field) : json(nullptr);
    } else {
      return field;
    }
  }

  json object_ = json::object();
};

[[noreturn]] void refuse(const std::string& where, const std::string& reason, const json& found) {
  throw InputError(where, reason + ", is " + describe(found));
}

void read(const std::string& where, const json& value, bool& field) {
  if (!value.is_boolean()) refuse(where, "must be true or false", value);
  field = value.get<bool>();
}

void read(const std::string& where, const json& value, double& field) {
  if (!value.is_number()) refuse(where, "must be a number", value);
  field = value.get<double>();
}

void read(const std::string& where, const json& value, std::uint64_t& field) {
  if (!value.is_number_unsigned()) refuse(where, "must be a non-negative integer below 2^64", value);
  field = value.get<std::uint64_t>();
}

void read(const std::string& where, const json& value, std::int64_t& field) {
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX});
  if (!fits) refuse(where, "must be an integer of 64 bits", value);
  field = value.get<std::int64_t>();
}

void read(const std::string& where, const json& value, std::string& field) {
  if (!value.is_string()) refuse(where, "must be a text", value);
  field = value.get<std::string>();
}

template <class Enum>
requires std::is_enum_v<Enum>
void read(const std::string& where, const json& value, Enum& field) {
  std::string allowed;
  for (int number = 0; word(static_cast<Enum>(number)) != nullptr; ++number) {
    const char* const candidate = word(static_cast<Enum>(number));
    if (value == candidate) {
      field = static_cast<Enum>(number);
      return;
    }
    allowed += (number > 0 ? ", " : "") + std::string(candidate);
  }
  refuse(where, "must be one of " + allowed, value);
}

template <class Item>
void read(const std::string& where, const json& value, std::vector<Item>& field) {
  if (!value.is_array()) refuse(where, "must be a list", value);
  field.clear();
  for (std::size_t i = 0; i < value.size(); ++i) {
    read(where + ", item " + std::to_string(i + 1), value[i], field.emplace_back());
  }
}

void read(const std::string& where, const json& value, std::set<std::uint64_t>& field) {
  std::vector<std::uint64_t> list;
  read(where, value, list);
  field = {list.begin(), list.end()};
  if (field.size() != list.size()) throw InputError(where, "lists a number twice");
}

template <class Value>
void read(const std::string& where, const json& value, std::optional<Value>& field) {
  field.reset();
  if (!value.is_null()) read(where, value, field.emplace());
}

/// Fills a structure's fields from an object that must have exactly their keys.
class FieldReader {
 public:
  FieldReader(std::string where, const json& object) : where_(std::move(where)), object_(object) {
    if (!object_.is_object()) refuse(where_, "must be an object", object_);
  }

  template <class Field>
  void operator()(const char* key, Field& field) {
    const auto found = object_.find(key);
    if (found == object_.end()) throw InputError(where_, std::string(key) + " is missing");
    known_.insert(key);
    const std::string where = where_ + ": " + key;
    if constexpr (requires(FieldReader & inner) { visit_fields(field, inner); }) {
      read_structure(where, *found, field);
    } else {
      read(where, *found, field);
    }
  }

  template <class Structure>
  static void read_structure(const std::string& where, const json& object, Structure& structure) {
    FieldReader reader(where, object);
    visit_fields(structure, reader);
    reader.refuse_unknown();
  }

 private:
  void refuse_unknown() const {
    for (const auto& [key, value] : object_.items()) {
      if (!known_.contains(key)) throw InputError(where_, "\"" + key + "\" is not a setting");
    }
  }

  std::string where_;
  const json& object_;
  std::set<std::string> known_;
};

}  // namespace

std::string training_settings_text(const TrainingSettings& settings) {
  TrainingSettings copy = settings;  // the visitors serve both directions and may write
  FieldWriter writer;
  visit_fields(copy, writer);
  return writer.take().dump();
}

TrainingSettings training_settings_from_text(const std::string& where, std::string_view text) {
  const json document = parse_json_object(where, text);
  TrainingSettings settings;
  FieldReader::read_structure(where, document, settings);
  return settings;
}

}  // namespace zerolock
