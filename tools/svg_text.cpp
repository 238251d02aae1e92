#include "svg_text.hpp"

#include <fmt/format.h>

namespace spjit::cli {

std::string escape_xml(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&apos;";
        break;
      default:
        escaped += code < 0x20 && c != '\t' && c != '\n' && c != '\r' ? '?' : c;
    }
  }
  return escaped;
}

std::string text_at(double x, double y, std::string_view anchor, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escape_xml(text));
}

std::string svg_head(double width, double height, std::string_view title) {
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
             "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"13\" "
             "fill=\"#1b1b1b\">\n<title>{2}</title>\n<rect width=\"{0}\" height=\"{1}\" "
             "fill=\"#ffffff\"/>\n",
             width, height, escape_xml(title)) +
         text_at(width / 2, 24, "middle", title);
}

}  // namespace spjit::cli
