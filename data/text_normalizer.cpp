#include "data/text_normalizer.hpp"

namespace zerolock {
namespace {

struct ApplyStep {
  std::string text;

  std::string operator()(const PrependText& step) const { return text.empty() ? text : step.prefix + text; }
  std::string operator()(const ReplaceText& step) const { return replace_all(text, step.from, step.to); }
  std::string operator()(NormalizationForm form) const { return normalize(text, form); }
};

}  // namespace

std::string TextNormalizer::apply(std::string_view text) const {
  std::string result(text);
  for (const NormalizerStep& step : steps_) result = std::visit(ApplyStep{std::move(result)}, step);
  return result;
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  result.reserve(text.size());
  std::size_t at = 0;
  for (std::size_t found = text.find(from); found != std::string_view::npos; found = text.find(from, at)) {
    result += text.substr(at, found - at);
    result += to;
    at = found + from.size();
  }
  result += text.substr(at);
  return result;
}

}  // namespace zerolock
