"""How columns are named in German, French, Spanish, Portuguese, Italian and Dutch: alternatives of regular expressions,
in lower case."""

PERSONS = (
    r"kunden?|k(?:ä|ae)ufer|nutzer|benutzer|mitglied(?:er|s)?|teilnehmer|gast|clientes?|clienti|utilisateurs?"
    r"|acheteurs?|abonn[ée]s?|membres?|usu[áa]ri[oa]s?|compradora?s?|miembros?|utent[ei]|klant(?:en)?|gebruikers?"
)
VISITORS = r"besucher|visiteur|visitante|visitator|bezoeker"
NUMBERS = r"nummer|kennung|n[úu]m[ée]ro|c[óo]digo"
TIMES = r"(?:zeit(?:punkt|stempel)?|datum|tijd(?:stip)?)(?:_|$)|(?:^|_)(?:fecha|hora|heure|ora)(?:_|$)|horodatage"
LATER = r"geburt|geboorte|änder|aender|letzt|ablauf|naissance|nacimient|nascita|caduc|expira"
"""Times of something other than the event: a birthday, a change, an end."""
