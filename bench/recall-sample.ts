/** A preference said once, and a question much later that it bears on without repeating it. Written for this bench. */
export const PREFERENCES = pairs(`
I never travel by plane; a rough landing years ago left me scared of flying. | What is the best way to travel from Vienna to Lisbon in June?
Peanuts make my throat swell, so I avoid every dish that has them. | Suggest a Thai dish for tonight's dinner.
I gave up alcohol two years ago and order drinks without it. | Which drinks could I order at the bar with my colleagues?
I can't stand crowds or queues, least of all in museums. | Which museums should I see in Paris this weekend?
I only read books on paper; screens tire my eyes. | Where can I get the new book everyone talks about?
My knees hurt when I run, so I need exercise that spares them. | Give me an exercise plan for the months before summer.
I don't eat meat or fish. | What should I grill at the garden party on Saturday?
I much prefer films without violence. | Pick a film for Friday night.
We have two cats that chew on every plant they can reach. | Which plants would look good in the living room?
I hate getting up early and take the late train whenever I can. | Which train to Zurich should I book?
Loud music gives me headaches. | At which venue shall we celebrate my birthday?
I am colour-blind: red and green look the same to me. | Choose colours for the chart in my slides.
I don't drive and have no licence. | How can we explore the Scottish Highlands?
Perfume and scented soap make me sneeze. | What gift set of soap would suit my bathroom?
I try to buy furniture second-hand instead of new. | I need a desk for my new flat; what furniture shops are there?
I am on a tight budget for holidays this year. | Where should I spend my holidays in August?
Please keep explanations to a few lines; I skim them on my phone. | Explain how vaccines work.
I'm left-handed, which makes many tools awkward. | Which tools do I need to start gardening?
Dairy upsets my stomach, even a little cream in a dessert. | Recommend a dessert for Sunday lunch.
I avoid social networks altogether. | How can I find old school friends online?
Heat is hard on me; in weather above 25 degrees I feel ill. | Is Seville a good idea for July?
I like quiet places in nature more than towns. | Which places should I visit on a free weekend?
Open-plan offices make it impossible for me to concentrate at work. | What should I ask about the office in my job interview?
I can't swim and keep away from deep water. | Which water activities are good on a lake holiday?
My flat has no oven, so I cook everything on two hot plates. | What can I cook for six guests?
I don't like series that jump back and forth in time. | Which television series should I start?
I use a wheelchair, and stairs rule out many restaurants. | Which restaurants near the old town can you recommend?
I won't install closed-source software on my machines. | Which software should I use to edit photos?
Heights make me dizzy, so no towers or glass floors. | What are the highlights of Chicago I should not miss?
I have no patience for meals that take longer than half an hour. | What would be a nice meal for Wednesday?
I would rather repair a device than throw it away. | My toaster stopped working. Which one should I get?
I never work on Saturdays for religious reasons. | When could we hold the two-day workshop?
Wool itches on my skin. | Which jumper would keep me warm this winter?
I learn best by doing, not by reading theory. | How do I learn the basics of statistics?
I don't take loans, on principle, not even for a car. | How could I finance a new car?
I sleep badly if I drink coffee after noon. | What shall I drink with my cake at four?
My daughter is afraid of dogs. | Which park should I visit with my daughter on Sunday?
I want my savings to keep away from oil and weapons. | Which funds might suit my savings?
Spicy food is too much for me. | Which food should I try at the Indian restaurant?
I prefer doing sport alone to playing in a team. | Which sport could I take up?
I'm allergic to cat hair. | I found a room in a shared house with two pets; should I take it?
I can't lift heavy boxes since my back operation. | How should I organise the move to the new house?
I never give my phone number to companies. | How do I sign up for the discount card?
I like to own my music rather than rent it from a service. | Where can I listen to new music?
I keep kosher and bring my own snacks. | Which snacks shall we have at the picnic?
Small talk with strangers exhausts me. | Should I go to the networking evening?
I only wear black, white and grey clothes. | Help me choose a coat that I can wear in spring.
We have a newborn at home and hardly sleep. | When is a good time to repaint the bedroom?
I get seasick on any boat. | How should we travel from Athens to Crete?
I refuse to use plastic bottles. | Which water bottles should I pack for the hike?
Flickering lights in clubs can trigger my seizures. | Which clubs are worth going to on Friday?
My Spanish is fluent, but I speak no French. | Where could I spend a semester abroad?
I can't digest gluten, so normal bread is out. | Which breakfast place would you suggest?
I find watching sport on television dull. | What shall I do while my friends watch the final?
I want to stay away from sugar. | Give me ideas for an afternoon snack.
I would never leave my dog behind when I stay at a hotel. | Which hotel should I book in Hamburg?
I like board games that take less than an hour. | Which games shall we play tonight?
Big cities scare me after dark. | What can I do in New York in the evening?
I only buy clothes made in fair conditions. | Where do I buy new jeans?
I prefer a hand-written letter to any message. | How should I invite my aunt to the wedding?
`);

/** A fact said once, and a question for it in other words. */
export const FACTS = pairs(`
The staging database listens on port 6543 because 5432 was taken. | Which port does Postgres use in staging?
We settled on argon2id for hashing passwords, with 64 MB of memory. | How are passwords hashed?
The deploy key expires on 14 March 2027; Priya has the new one. | When do we need a new deploy key?
src/billing/invoice-total.ts rounds half up, which the auditors rejected. | What did the auditors object to?
The nightly backup goes to the bucket frost-harbour in eu-north-1. | Where are the backups kept?
We tried Redis streams for the queue and dropped them: consumers lost messages on failover. | Why don't we use Redis for the queue?
The error was ECONNRESET after exactly 29 seconds, so the proxy cuts idle connections. | What caused the connection resets?
Never run the migration tool against the tenant called Orchid; their schema is patched by hand. | Which tenant must not be migrated?
The feature flag is named checkout_v3_enabled and is on for ten per cent of users. | What is the flag of the new checkout called?
Marta's train arrives at 18:40 in Graz on Thursday. | When does Marta get to Graz?
My grandmother's lemon cake needs 250 grams of sugar, not 200. | How much sugar goes into the lemon cake?
The vet said Pixel weighs 4.2 kilos and should lose half a kilo. | How heavy is the cat?
The Wi-Fi password of the cabin is written under the blue lamp. | Where do I find the cabin's network password?
The landlord agreed to repaint the hallway before October. | What did the landlord promise?
The rate limit is 600 requests a minute per key. | How many requests may a client make?
Version 2.8.1 broke the CSV import for files with a byte order mark. | Since which version does the CSV import fail?
My licence plate is W-482 KP. | What is the number plate of my car?
Set retention_days to 45 for the metrics bucket; legal wants no more. | How long do we keep metrics?
`);

/** Conversations about other things; each is a session. */
export const FILLER: readonly (readonly string[])[] = [
  `What is the difference between a list and a tuple in Python? | A list can change after it is made, a tuple cannot; tuples can be keys of a dictionary. | And which is faster to iterate? | There is hardly a difference; choose by meaning, not by speed.`,
  `Write a short poem about autumn. | Leaves let go without a sound, / copper coins upon the ground. | Could you make it longer? | The wind goes counting them till night, / and spends them all in fading light.`,
  `How do tides work? | The moon pulls on the near side of the sea more than on the far side, which makes two bulges. | Why are there two bulges and not one? | On the far side the earth is pulled away from the water.`,
  `Translate "good morning, how are you" into Italian. | Buongiorno, come stai? | And formally? | Buongiorno, come sta?`,
  `Suggest a name for a bakery. | Crumb & Hearth, The Early Oven, Flour Street. | The second one is nice. What about a slogan? | Warm before the sun is.`,
  `Summarise the plot of Hamlet. | A prince learns that his uncle killed his father, hesitates, and takes revenge at the price of nearly everyone. | Who survives? | Horatio, who is asked to tell the story.`,
  `Explain compound interest. | Interest is paid on interest: 100 at five per cent is 105 after one year and 110.25 after two. | What is the rule of 72? | Divide 72 by the rate for the years it takes to double.`,
  `Which planet has the most moons? | Saturn, with more than a hundred and forty known. | And Jupiter? | Close to a hundred.`,
  `I need a regular expression for dates like 2024-01-31. | Use four digits, a hyphen, two digits, a hyphen, two digits, anchored at both ends. | Does it check that the month is valid? | No; parse the date afterwards.`,
  `What should one see in Rome in three days? | The Forum and Colosseum, the Vatican museums, Trastevere in the evening. | Is the metro useful? | For the Vatican yes; the centre is walked.`,
  `How do I sharpen a kitchen knife? | Soak the stone, hold twenty degrees, draw the blade along in even strokes. | How often? | Every few weeks, and use a honing rod in between.`,
  `Give me a recipe for tomato soup. | Roast tomatoes with garlic, simmer with stock, blend, season with basil. | Can it be frozen? | Yes, for three months.`,
  `What happened in the year 1989 in Berlin? | The wall fell on the ninth of November. | Who was the mayor then? | Walter Momper in the West, Erhard Krack in the East.`,
  `My code prints undefined instead of the sum. | The function lacks a return statement. | Thanks, now it works. | Glad to hear it; a linter would have told you.`,
  `How long does it take to learn the piano? | Simple pieces within months, fluent sight-reading within years. | Is an electric one good enough? | With weighted keys, yes.`,
  `Recommend exercises for better posture. | Rows, planks, face pulls and walking breaks. | How many times a week? | Three short sessions do more than one long one.`,
  `What does a good cover letter contain? | Why this company, what you have done that matters to it, and one example. | How long should it be? | Less than a page.`,
  `How do noise-cancelling headphones work? | They record the noise and play its mirror image. | Do they work for voices? | Less well, since voices change quickly.`,
  `Tell me a joke about programmers. | There are two hard things: naming, caching and off-by-one errors. | Another one. | A query walks up to two tables and asks whether it may join them.`,
  `What is photosynthesis? | Plants turn light, water and carbon dioxide into sugar and oxygen. | Does it happen at night? | The part that needs light does not.`,
  `Is it cheaper to rent or to buy a home? | It depends on prices, rates and how long you stay; five years is a common break-even. | What costs do people forget? | Repairs, taxes and the fee of the notary.`,
  `How can I remove a red wine stain from a shirt? | Blot it, rinse cold, then salt or a stain remover before washing. | It is silk. | Then take it to a cleaner.`,
  `Compare the train and the bus from Munich to Prague. | The train takes under six hours, the bus under five and costs less. | Which has more legroom? | The train.`,
  `What are good books for a ten-year-old? | Momo, The Phantom Tollbooth, Matilda. | She likes horses. | Then Black Beauty or The Black Stallion.`,
].map((talk) => talk.split(" | "));

function pairs(lines: string): readonly (readonly [string, string])[] {
  return lines
    .trim()
    .split("\n")
    .map((line) => {
      const [said = "", asked = ""] = line.split(" | ");
      return [said, asked] as const;
    });
}
